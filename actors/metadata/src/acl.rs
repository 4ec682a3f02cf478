//! POSIX access control lists: the rule itself, its bytes in a volume and in an extended attribute, what it says of
//! a mode and a mode of it, and whom it lets in. Pure. Source: volume format, POSIX ACL; acl(5).

use zest_types::{Attr, Caller, Errno};

/// A class a rule does not name.
pub const UNSET: u16 = 0xFFFF;
/// The extended attribute that shows an access rule.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The extended attribute that shows a default rule.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Version in the first byte of the extended attribute.
const XATTR_VERSION: u32 = 2;
/// What stands for the id of an entry that has none.
const NO_ID: u32 = 0xFFFF_FFFF;

/// Which rule of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclKind {
    /// Who may use the node.
    Access,
    /// What new nodes in a directory begin with.
    Default,
}

impl AclKind {
    /// The kind an extended attribute shows.
    #[must_use]
    pub fn of(name: &[u8]) -> Option<AclKind> {
        match name {
            ACCESS => Some(AclKind::Access),
            DEFAULT => Some(AclKind::Default),
            _ => None,
        }
    }

    /// The id of this rule of a node, 0 for none.
    #[must_use]
    pub fn id(self, attr: &Attr) -> u32 {
        match self {
            AclKind::Access => attr.access_acl,
            AclKind::Default => attr.default_acl,
        }
    }
}

/// A rule: permissions (3 bits each) of owner, group, mask, others, and of named users and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Rule {
    pub owner: u16,
    pub group: u16,
    pub mask: u16,
    pub other: u16,
    pub users: Vec<(u32, u16)>,
    pub groups: Vec<(u32, u16)>,
}

impl Rule {
    /// A rule that says nothing.
    pub const EMPTY: Rule =
        Rule { owner: UNSET, group: UNSET, mask: UNSET, other: UNSET, users: Vec::new(), groups: Vec::new() };

    /// What stands for a rule that is named and missing: it lets nobody in.
    pub const NOBODY: Rule =
        Rule { owner: 0, group: 0, mask: 0, other: 0, users: Vec::new(), groups: Vec::new() };

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_minimal() && [self.owner, self.group, self.other] == [UNSET; 3]
    }

    /// Whether it says no more than a mode.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.mask == UNSET
    }

    /// The nine bits of the mode that goes with it.
    #[must_use]
    pub fn mode(&self) -> u16 {
        let group = if self.is_minimal() { self.group } else { self.mask };
        (self.owner & 7) << 6 | (group & 7) << 3 | self.other & 7
    }

    /// The rule after chmod.
    #[must_use]
    pub fn with_mode(mut self, mode: u16) -> Rule {
        self.owner = mode >> 6 & 7;
        self.other = mode & 7;
        match self.is_minimal() {
            true => self.group = mode >> 3 & 7,
            false => self.mask = mode >> 3 & 7,
        }
        self
    }

    /// The access rule of a node that is made with this mode where this is the default rule.
    #[must_use]
    pub fn child(&self, mode: u16) -> Rule {
        let mut child = self.clone();
        child.owner &= mode >> 6 & 7;
        child.mask &= mode >> 3 & 7;
        child.other &= mode & 7;
        child
    }

    /// The rule with what it does not name taken from a mode.
    #[must_use]
    pub fn filled(mut self, mode: u16) -> Rule {
        let from = |class: u16, shift: u16| if class == UNSET { mode >> shift & 7 } else { class };
        (self.owner, self.group, self.other) =
            (from(self.owner, 6), from(self.group, 3), from(self.other, 0));
        self
    }

    /// Whether it lets the caller use a node of this owner in all these ways (bits of access(2)).
    #[must_use]
    pub fn allows(&self, attr: &Attr, caller: &Caller, wanted: u8) -> bool {
        let wanted = u16::from(wanted);
        let grants = |perm: u16| perm & wanted == wanted;
        if caller.uid == attr.uid {
            return grants(self.owner & 7);
        }
        if let Some((_, perm)) = self.users.iter().find(|(uid, _)| *uid == caller.uid) {
            return grants(perm & self.mask & 7);
        }
        let owning = (attr.gid == caller.gid).then_some(self.group);
        let named = self.groups.iter().filter(|(gid, _)| *gid == caller.gid).map(|(_, perm)| *perm);
        let mut matched = false;
        for perm in owning.into_iter().chain(named) {
            matched = true;
            if grants(perm & self.mask & 7) {
                return true;
            }
        }
        !matched && grants(self.other & 7)
    }

    /// The bytes of its record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 6 * (self.users.len() + self.groups.len()));
        for class in [self.owner, self.group, self.mask, self.other] {
            out.extend_from_slice(&class.to_be_bytes());
        }
        for named in [&self.users, &self.groups] {
            out.extend_from_slice(&u32::try_from(named.len()).unwrap_or(u32::MAX).to_be_bytes());
            for (id, perm) in named {
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(&perm.to_be_bytes());
            }
        }
        out
    }

    /// The rule in a record's bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Rule> {
        let mut bytes = Take(bytes);
        let classes = [bytes.u16(true)?, bytes.u16(true)?, bytes.u16(true)?, bytes.u16(true)?];
        let [owner, group, mask, other] = classes;
        let mut named = || -> Option<Vec<(u32, u16)>> {
            // The count is not believed before there are bytes for it.
            let count =
                usize::try_from(bytes.u32(true)?).ok().filter(|n| n.checked_mul(6) <= Some(bytes.0.len()))?;
            (0..count).map(|_| Some((bytes.u32(true)?, bytes.u16(true)?))).collect()
        };
        let (users, groups) = (named()?, named()?);
        bytes.0.is_empty().then_some(Rule { owner, group, mask, other, users, groups })
    }

    /// The value of the extended attribute that shows it.
    #[must_use]
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut out = XATTR_VERSION.to_le_bytes().to_vec();
        let mut entry = |tag: u16, perm: u16, id: u32| {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&perm.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        };
        entry(1, self.owner, NO_ID);
        self.users.iter().for_each(|(id, perm)| entry(2, *perm, *id));
        entry(4, self.group, NO_ID);
        self.groups.iter().for_each(|(id, perm)| entry(8, *perm, *id));
        if self.mask != UNSET {
            entry(0x10, self.mask, NO_ID);
        }
        entry(0x20, self.other, NO_ID);
        out
    }

    /// The rule an extended attribute's value shows; `EINVAL` for what shows none.
    pub fn from_xattr(value: &[u8]) -> Result<Rule, Errno> {
        let mut bytes = Take(value);
        let version = bytes.u32(false).ok_or(Errno::EINVAL)?;
        if version & 0xFF != XATTR_VERSION || bytes.0.len() % 8 != 0 {
            return Err(Errno::EINVAL);
        }
        let mut rule = Rule::EMPTY;
        while !bytes.0.is_empty() {
            let entry = (bytes.u16(false), bytes.u16(false), bytes.u32(false));
            let (Some(tag), Some(perm), Some(id)) = entry else { return Err(Errno::EINVAL) };
            if perm > 7 {
                return Err(Errno::EINVAL);
            }
            let class = match tag {
                1 => &mut rule.owner,
                4 => &mut rule.group,
                0x10 => &mut rule.mask,
                0x20 => &mut rule.other,
                2 => {
                    rule.users.push((id, perm));
                    continue;
                }
                8 => {
                    rule.groups.push((id, perm));
                    continue;
                }
                _ => continue,
            };
            if std::mem::replace(class, perm) != UNSET {
                return Err(Errno::EINVAL);
            }
        }
        let named = !rule.users.is_empty() || !rule.groups.is_empty();
        if named && rule.mask == UNSET { Err(Errno::EINVAL) } else { Ok(rule) }
    }
}

/// Numbers off the front of a byte string.
struct Take<'a>(&'a [u8]);

impl Take<'_> {
    fn array<const N: usize>(&mut self, big: bool) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        let mut bytes = *head;
        if !big {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn u16(&mut self, big: bool) -> Option<u16> {
        self.array(big).map(u16::from_be_bytes)
    }

    fn u32(&mut self, big: bool) -> Option<u32> {
        self.array(big).map(u32::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zest_types::{FileType, Ino, Time};

    fn rule() -> impl Strategy<Value = Rule> {
        let class = || prop_oneof![3 => 0..8u16, 1 => Just(UNSET)];
        let named = || prop::collection::vec((0..9u32, 0..8u16), 0..3);
        (class(), class(), 0..8u16, class(), named(), named()).prop_map(
            |(owner, group, mask, other, users, groups)| {
                let mask = if users.is_empty() && groups.is_empty() && mask > 3 { UNSET } else { mask };
                Rule { owner, group, mask, other, users, groups }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_stored_and_shown_is_read_back(rule in rule(), mode in 0..0o1000u16) {
            prop_assert_eq!(Rule::decode(&rule.encode()), Some(rule.clone()));
            let full = rule.filled(mode);
            prop_assert_eq!(Rule::from_xattr(&full.to_xattr()), Ok(full.clone()));
            let changed = full.clone().with_mode(mode);
            prop_assert_eq!(changed.mode(), mode);
            prop_assert_eq!((&changed.users, &changed.groups), (&full.users, &full.groups));
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(rule) = Rule::decode(&bytes) {
                prop_assert_eq!(rule.encode(), bytes.clone());
            }
            if let Ok(rule) = Rule::from_xattr(&bytes) {
                let _ = (rule.mode(), rule.to_xattr());
            }
        }

        #[test]
        fn a_minimal_rule_says_what_its_mode_says(mode in 0..0o1000u16, uid in 0..3u32, gid in 0..3u32, wanted in 0..8u8) {
            let rule = Rule { mask: 7, ..Rule::EMPTY }.filled(mode);
            let attr = Attr::new(FileType::File, mode, 1, 1, Ino(1), Time::default());
            let caller = Caller { uid, gid, pid: 1, check: true };
            let shift = if uid == 1 { 6 } else if gid == 1 { 3 } else { 0 };
            let by_mode = mode >> shift & u16::from(wanted) == u16::from(wanted);
            prop_assert_eq!(rule.allows(&attr, &caller, wanted), by_mode);
        }
    }

    #[test]
    fn the_record_is_that_of_the_format() {
        let rule = Rule { owner: 7, group: 5, mask: 7, other: 0, users: vec![(1000, 6)], groups: vec![] };
        let hex: String = rule.encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "000700050007000000000001000003e8000600000000");
        assert_eq!(Rule::decode(&[0xFF; 12]), None);
    }

    #[test]
    fn the_first_entry_that_fits_decides() {
        let attr = Attr::new(FileType::File, 0o670, 1, 2, Ino(1), Time::default());
        let rule =
            Rule { owner: 6, group: 4, mask: 5, other: 7, users: vec![(8, 7)], groups: vec![(3, 2), (3, 1)] };
        let allowed = |uid, gid| -> Vec<u8> {
            let caller = Caller { uid, gid, pid: 1, check: true };
            (1..8).filter(|wanted| rule.allows(&attr, &caller, *wanted)).collect()
        };
        assert_eq!(allowed(1, 3), [2, 4, 6], "the owner, whatever the mask");
        assert_eq!(allowed(8, 2), [1, 4, 5], "a named user, within the mask");
        assert_eq!(allowed(9, 2), [4], "the owning group");
        assert_eq!(allowed(9, 3), [1], "a named group: one of its entries must have all that is wanted");
        assert_eq!(allowed(9, 9), [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        let entry = |tag: u16, perm: u16| [tag.to_le_bytes(), perm.to_le_bytes(), [0; 2], [0; 2]].concat();
        let value = |entries: &[Vec<u8>]| [vec![2, 0, 0, 0], entries.concat()].concat();
        for bad in [
            vec![],
            vec![2, 0, 0],
            vec![1, 0, 0, 0],
            [value(&[]), vec![1]].concat(),
            value(&[entry(1, 7), entry(1, 7)]),
            value(&[entry(2, 7)]),
            value(&[entry(1, 8)]),
        ] {
            assert_eq!(Rule::from_xattr(&bad), Err(Errno::EINVAL), "{bad:?}");
        }
        assert_eq!(Rule::from_xattr(&value(&[entry(0x40, 1)])), Ok(Rule::EMPTY));
        assert!(Rule::EMPTY.is_empty() && !Rule::NOBODY.is_empty());
    }
}
