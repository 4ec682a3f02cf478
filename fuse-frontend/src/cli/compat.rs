//! Options of JuiceFS's `mount` that stand in users' scripts and that this version does not have: each is taken
//! because leaving it out changes nothing, taken and named in the log, or refused with its reason. None means
//! something else here than there.

use anyhow::bail;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// What becomes of an option.
#[derive(Clone, Copy)]
enum Fate {
    /// Without it everything is as with it.
    Needless,
    /// It tunes something that works otherwise here: named in the log.
    Tuning,
    /// Refused, unless it has one of these values; the text says why.
    Refused(&'static [&'static str], &'static str),
}

use Fate::{Needless, Refused, Tuning};

const SWITCH: bool = false;
const VALUE: bool = true;

/// Name, whether a value follows, and what becomes of it.
const OPTIONS: [(&str, bool, Fate); 33] = [
    ("no-syslog", SWITCH, Needless),
    ("no-usage-report", SWITCH, Needless),
    ("force", SWITCH, Needless),
    ("sort-dir", SWITCH, Needless),
    ("skip-dir-nlink", VALUE, Needless),
    ("skip-dir-mtime", VALUE, Needless),
    ("fast-statfs", SWITCH, Needless),
    ("network-interfaces", VALUE, Needless),
    ("backup-skip-trash", SWITCH, Needless),
    ("max-stage-write", VALUE, Needless),
    ("hide-internal", SWITCH, Needless),
    ("open-cache-limit", VALUE, Needless),
    ("backup-meta", VALUE, Tuning),
    ("disable-transparent-hugepage", SWITCH, Tuning),
    ("max-fuse-io", VALUE, Tuning),
    ("prefix-internal", SWITCH, Tuning),
    ("cache-mode", VALUE, Tuning),
    ("cache-large-write", SWITCH, Needless),
    ("cache-scan-interval", VALUE, Needless),
    ("consul", VALUE, Tuning),
    ("no-agent", SWITCH, Needless),
    ("pyroscope", VALUE, Tuning),
    ("log-id", VALUE, Tuning),
    ("max-deletes", VALUE, Tuning),
    ("atime-mode", VALUE, Refused(&["noatime"], "access times are not kept")),
    ("root-squash", VALUE, Refused(&[], "users are not mapped")),
    ("all-squash", VALUE, Refused(&[], "users are not mapped")),
    ("umask", VALUE, Refused(&[], "a program's own umask holds")),
    ("enable-ioctl", SWITCH, Refused(&[], "flags of files can't be changed yet")),
    ("update-fstab", SWITCH, Refused(&[], "/etc/fstab is yours: write the line by hand")),
    ("storage-class", VALUE, Refused(&[""], "objects are written in the store's default class")),
    ("tag", VALUE, Refused(&[""], "objects are written without tags")),
    ("non-default-permission", SWITCH, Refused(&[], "the kernel checks permissions")),
];

/// Those of them that were given, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compat(Vec<(&'static str, String)>);

impl Args for Compat {
    fn augment_args(command: Command) -> Command {
        OPTIONS.iter().fold(command, |command, (name, value, _)| {
            let option = Arg::new(*name).long(*name).hide(true);
            command.arg(match *value {
                VALUE => option.action(ArgAction::Set).allow_hyphen_values(true),
                SWITCH => option.action(ArgAction::SetTrue),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Compat::augment_args(command)
    }
}

impl FromArgMatches for Compat {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Compat, clap::Error> {
        let given = |(name, value, _): &(&'static str, bool, Fate)| match *value {
            VALUE => matches.get_one::<String>(name).map(|text| (*name, text.clone())),
            SWITCH => matches.get_flag(name).then(|| (*name, String::new())),
        };
        Ok(Compat(OPTIONS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Compat::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Compat {
    /// The options that do nothing here and should be named in the log; an error where one can't be ignored.
    pub(super) fn judge(&self) -> anyhow::Result<Vec<&'static str>> {
        let mut tuning = Vec::new();
        for (name, value) in &self.0 {
            match OPTIONS.iter().find(|(known, _, _)| known == name).map(|(_, _, fate)| *fate) {
                Some(Tuning) if *name == "max-deletes" && value == "0" => {
                    bail!("--max-deletes 0 is not supported: data of removed files are removed; leave it out")
                }
                Some(Tuning) if *name == "backup-meta" && value == "0" => {}
                Some(Tuning) => tuning.push(*name),
                Some(Refused(fine, why)) if !fine.contains(&value.as_str()) || fine.is_empty() => {
                    bail!("--{name} is not supported: {why}; leave it out")
                }
                _ => {}
            }
        }
        Ok(tuning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        compat: Compat,
    }

    fn judge(text: &str) -> anyhow::Result<Vec<&'static str>> {
        Alone::try_parse_from(text.split(' ')).unwrap().compat.judge()
    }

    #[test]
    fn options_are_ignored_only_where_that_changes_nothing() {
        assert_eq!(judge("x --no-usage-report --backup-meta 0 --sort-dir").unwrap(), Vec::<&str>::new());
        assert_eq!(judge("x --cache-mode 0600 --backup-meta 1h").unwrap(), ["backup-meta", "cache-mode"]);
        assert!(judge("x --atime-mode noatime").is_ok());
        for (bad, word) in [
            ("x --atime-mode relatime", "access times"),
            ("x --umask 022", "umask"),
            ("x --max-deletes 0", "--max-deletes"),
            ("x --root-squash 1:1", "mapped"),
        ] {
            let said = judge(bad).unwrap_err().to_string();
            assert!(said.contains(word) && said.ends_with("leave it out"), "{said}");
        }
    }
}
