//! `zest quota set|get|delete|list|check META-URL`: limits of directories, users and groups, and whether the usage they
//! are compared with is right. `check` ends with status 0 only when it is, or was put right.

use super::grid::grid;
use super::{block_on, meta_url, units};
use crate::meta_url::MetaUrl;
use crate::volume::Volume;
use crate::volume::update::update;
use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use zest_metadata::{Key, Op, Outcome};
use zest_types::{Caller, FileType, Ino, Name};
use zest_upkeep::failure::Failure;
use zest_upkeep::quota::{self, Found, Quota, Which};
use zest_upkeep::reclaim::rules;
use zest_upkeep::repair::repair;
use zest_upkeep::tree::{self, Remedy, Scope, Seen};
use zest_upkeep::whole::Whole;

/// Arguments of `quota`.
#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct QuotaArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Set limits of a directory, user or group.
    Set(SetArgs),
    /// Show the quota of a directory, user or group.
    Get(Target),
    /// Take limits away.
    #[command(visible_alias = "del")]
    Delete(Target),
    /// Show all quotas.
    #[command(visible_alias = "ls")]
    List(Target),
    /// Compare usage with a count.
    Check(CheckArgs),
}

/// Whose quota.
#[derive(Args)]
struct Target {
    /// The volume: a directory, or the URL of a metadata server.
    #[arg(value_name = "META-URL")]
    url: String,
    /// A directory inside the volume.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["uid", "gid"])]
    path: Option<String>,
    /// A user; not 0.
    #[arg(long, value_name = "N", conflicts_with = "gid", value_parser = clap::value_parser!(u32).range(1..))]
    uid: Option<u32>,
    /// A group; not 0.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    gid: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SetArgs {
    #[command(flatten)]
    target: Target,
    /// The most it may hold, in GiB or with a unit; 0 is no limit.
    #[arg(long, value_name = "SIZE", value_parser = units::gib)]
    capacity: Option<u64>,
    /// The most files and directories; 0 is no limit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    inodes: Option<i64>,
    /// Make the directory where it is missing.
    #[arg(long)]
    create: bool,
    /// Wait until every client knows of the quota, and count again.
    #[arg(long)]
    strict: bool,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    target: Target,
    /// Write the right usage; with --path also the statistics of the directories below.
    #[arg(long)]
    repair: bool,
    /// Count by walking: it is always done.
    #[arg(long, hide = true)]
    strict: bool,
}

/// A quota to be shown.
struct Row {
    key: Key,
    /// As people name it.
    name: String,
    quota: Quota,
    found: Option<Found>,
}

impl QuotaArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Set(args) => args.run(),
            What::Get(target) => target.get(),
            What::Delete(target) => target.delete(),
            What::List(target) => target.list(),
            What::Check(args) => args.run(),
        }
    }
}

/// Opens a volume, works on it, and keeps what was changed, also when that ended early.
fn on_volume<T>(url: &MetaUrl, work: impl AsyncFnOnce(&Whole) -> Result<T, Failure>) -> anyhow::Result<T> {
    block_on(async {
        let volume = Volume::open(url).await?;
        let done = work(&volume.whole()?).await.with_context(|| format!("volume {url}"));
        volume.records().sync().await?;
        done
    })
}

impl Target {
    fn needed(&self) -> anyhow::Result<()> {
        if self.path.is_none() && self.uid.is_none() && self.gid.is_none() {
            bail!("whose quota? name a directory with --path, a user with --uid or a group with --gid");
        }
        self.absolute()
    }

    fn absolute(&self) -> anyhow::Result<()> {
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            bail!("--path is a directory inside the volume and begins with /");
        }
        Ok(())
    }

    /// The key of the one that is named; `None` where none is.
    async fn key(&self, whole: &Whole) -> Result<Option<Key>, Failure> {
        Ok(match (&self.path, self.uid, self.gid) {
            (Some(path), ..) => Some(Key::DirQuota(whole.find(path.as_bytes()).await?)),
            (_, Some(uid), _) => Some(Key::UserQuota(uid)),
            (.., Some(gid)) => Some(Key::GroupQuota(gid)),
            _ => None,
        })
    }

    fn get(self) -> anyhow::Result<()> {
        self.needed()?;
        let url = meta_url(&self.url)?;
        let rows = on_volume(&url, async |whole| {
            let Some(key) = self.key(whole).await? else { return Ok(Vec::new()) };
            rows(whole, quota::list(whole, &Which::One(key)).await?).await
        })?;
        self.show(&rows);
        Ok(())
    }

    fn list(self) -> anyhow::Result<()> {
        self.absolute()?;
        let url = meta_url(&self.url)?;
        let rows = on_volume(&url, async |whole| {
            let mut all = match self.key(whole).await? {
                Some(key) => quota::list(whole, &Which::One(key)).await?,
                None => {
                    let mut all = quota::list(whole, &Which::Directories).await?;
                    all.extend(quota::list(whole, &Which::Owners).await?);
                    all
                }
            };
            // Usage of users without limits is only counted, and no quota.
            all.retain(|key, quota| matches!(key, Key::DirQuota(_)) || quota.limits());
            rows(whole, all).await
        })?;
        self.show(&rows);
        Ok(())
    }

    fn delete(self) -> anyhow::Result<()> {
        self.needed()?;
        let url = meta_url(&self.url)?;
        on_volume(&url, async |whole| {
            let Some(key) = self.key(whole).await? else { return Ok(()) };
            match quota::read(whole, &key).await? {
                Some(_) => quota::drop(whole, &key).await,
                None => Ok(()),
            }
        })
    }

    fn show(&self, rows: &[Row]) {
        if self.json {
            let all: Vec<Value> = rows.iter().map(Row::json).collect();
            crate::log::say(&format!("{:#}", Value::Array(all)));
        } else if !rows.is_empty() {
            crate::log::say(&table(self.header(), rows));
        }
    }

    fn header(&self) -> &'static str {
        match (&self.path, self.uid, self.gid) {
            (Some(_), ..) => "Path",
            (_, Some(_), _) => "User ID",
            (.., Some(_)) => "Group ID",
            _ => "Path/ID",
        }
    }
}

impl SetArgs {
    fn run(self) -> anyhow::Result<()> {
        self.target.needed()?;
        let url = meta_url(&self.target.url)?;
        let limit = |text: u64| i64::try_from(text).unwrap_or(i64::MAX);
        let (space, inodes) = (self.capacity.map(limit), self.inodes);
        let owners = self.target.path.is_none();
        let (old, _) = block_on(async {
            Ok(update(&url, false, |old| {
                let mut new = old.clone();
                match owners {
                    true => new.set_user_group_quota(true),
                    false => new.dir_stats = true,
                }
                Ok(new)
            })
            .await?)
        })?;
        let rows = on_volume(&url, async |whole| {
            if owners && !old.user_group_quota() {
                tell_moving(&quota::begin_owners(whole).await?);
            }
            if !owners && !old.dir_stats {
                quota::begin_statistics(whole).await?;
            }
            if let Some(path) = self.target.path.as_ref().filter(|_| self.create) {
                make(whole, path).await?;
            }
            let Some(key) = self.target.key(whole).await? else { return Ok(Vec::new()) };
            let new = quota::read(whole, &key).await?.is_none();
            quota::set(whole, &key, space, inodes).await?;
            if !owners && self.strict {
                quota::everybody_knows(whole).await?;
                tell_moving(&quota::check(whole, &Which::One(key.clone()), true).await?);
            } else if !owners && new && !whole.engine.exclusive() {
                crate::log::tell(
                    "clients that have the volume mounted count for this quota from their next heartbeat on; --strict waits for them and counts again",
                );
            }
            rows(whole, quota::list(whole, &Which::One(key)).await?).await
        })?;
        self.target.show(&rows);
        Ok(())
    }
}

fn tell_moving(found: &BTreeMap<Key, Found>) {
    let moving = found.values().filter(|found| **found == Found::Moving).count();
    if moving > 0 {
        crate::log::tell(&format!(
            "{moving} usages changed whenever they were counted: run zest quota check --repair when less is going on"
        ));
    }
}

/// Makes a directory and those above it, where they are missing.
async fn make(whole: &Whole, path: &str) -> Result<(), Failure> {
    let rules = rules(whole);
    rules.look_for_quotas().await?;
    let mut parent = Ino::ROOT;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let name = Name::new(part.as_bytes()).map_err(|_| Failure::NoPath(path.to_owned()))?;
        let make = Op::Make {
            parent,
            name: name.clone(),
            kind: FileType::Directory,
            mode: 0o755,
            umask: 0,
            rdev: 0,
            target: Vec::new(),
            existing_ok: false,
        };
        parent = match rules.change(Caller::SYSTEM, &make).await {
            Ok(Outcome::Node { ino, .. }) => ino,
            Err(zest_types::Errno::EEXIST) => match whole.entry(parent, name).await? {
                Some(ino) => ino,
                None => return Err(Failure::NoPath(path.to_owned())),
            },
            Ok(_) => return Err(zest_types::Errno::EIO.into()),
            Err(errno) => return Err(errno.into()),
        };
    }
    Ok(())
}

impl CheckArgs {
    fn run(self) -> anyhow::Result<()> {
        let target = &self.target;
        target.absolute()?;
        let url = meta_url(&target.url)?;
        let rows = on_volume(&url, async |whole| {
            let kinds = match target.key(whole).await? {
                Some(key) => vec![Which::One(key)],
                None if whole.user_quotas => vec![Which::Directories, Which::Owners],
                None => vec![Which::Directories],
            };
            let mut all = Vec::new();
            for which in kinds {
                if let (Which::One(Key::DirQuota(dir)), true) = (&which, self.repair) {
                    statistics(whole, *dir).await?;
                }
                let owner = matches!(which, Which::One(Key::UserQuota(_) | Key::GroupQuota(_)));
                if owner && !whole.user_quotas {
                    continue;
                }
                let found = match &which {
                    Which::One(key @ Key::DirQuota(_)) if quota::read(whole, key).await?.is_none() => {
                        BTreeMap::new()
                    }
                    which => quota::check(whole, which, self.repair).await?,
                };
                let mut stored = quota::list(whole, &which).await?;
                stored.retain(|key, _| found.contains_key(key));
                for key in found.keys() {
                    stored.entry(key.clone()).or_default();
                }
                for row in rows(whole, stored).await? {
                    all.push(Row { found: found.get(&row.key).copied(), ..row });
                }
            }
            Ok(all)
        })?;
        for row in &rows {
            row.tell();
        }
        target.show(&rows);
        let off = rows.iter().filter(|row| matches!(row.found, Some(Found::Off(_) | Found::Moving))).count();
        match off {
            0 => Ok(()),
            off => Err(anyhow!(
                "volume {url}: {off} usages are not what was counted: add --repair to put them right"
            )),
        }
    }
}

/// Counts anew the statistics below a directory that are missing or off.
async fn statistics(whole: &Whole, dir: Ino) -> Result<(), Failure> {
    let scope = Scope { recursive: true, statistics: true, uncounted: true, files: false };
    let mut seen = Seen::default();
    tree::look(whole, dir, "", scope, &mut seen).await?;
    for problem in seen.problems {
        if matches!(problem.remedy, Some(Remedy::Statistics(_))) {
            repair(whole, &problem, 0o755).await?;
        }
    }
    Ok(())
}

async fn rows(whole: &Whole, all: BTreeMap<Key, Quota>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (key, quota) in all {
        let name = match &key {
            Key::DirQuota(dir) => match whole.paths(*dir).await?.pop() {
                Some(path) => path,
                None => format!("inode:{dir}"),
            },
            Key::UserQuota(uid) => format!("uid:{uid}"),
            Key::GroupQuota(gid) => format!("gid:{gid}"),
            _ => continue,
        };
        rows.push(Row { key, name, quota, found: None });
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

impl Row {
    /// What was found wrong, and what was done about it.
    fn tell(&self) {
        let (name, (space, inodes)) = (&self.name, self.quota.used());
        match self.found {
            Some(Found::Off((real_space, real_inodes))) => crate::log::tell(&format!(
                "{name}: usage({inodes}, {}) != actual usage({real_inodes}, {})",
                short(space),
                short(real_space)
            )),
            Some(Found::Moving) => {
                crate::log::tell(&format!("{name}: usage changed whenever it was counted: try again"));
            }
            Some(Found::Repaired((real_space, real_inodes))) => {
                crate::log::tell(&format!("{name}: repaired: usage({real_inodes}, {})", short(real_space)));
            }
            Some(Found::Right) | None => {}
        }
    }

    fn json(&self) -> Value {
        let Quota { max_space, max_inodes, used_space, used_inodes } = self.quota;
        let mut shown = json!({
            "MaxSpace": max_space, "MaxInodes": max_inodes, "UsedSpace": used_space, "UsedInodes": used_inodes,
        });
        let who = match &self.key {
            Key::UserQuota(uid) => ("Uid", (*uid).into()),
            Key::GroupQuota(gid) => ("Gid", (*gid).into()),
            _ => ("Path", Value::from(self.name.as_str())),
        };
        let found = self.found.map(|found| match found {
            Found::Right => json!({ "State": "right" }),
            Found::Off((space, inodes)) => {
                json!({ "State": "off", "CountedSpace": space, "CountedInodes": inodes })
            }
            Found::Repaired(_) => json!({ "State": "repaired" }),
            Found::Moving => json!({ "State": "moving" }),
        });
        if let Value::Object(map) = &mut shown {
            map.insert(who.0.into(), who.1);
            if let Some(Value::Object(found)) = found {
                map.extend(found);
            }
        }
        shown
    }
}

fn table(header: &str, rows: &[Row]) -> String {
    let limit = |max: i64, text: String| if max > 0 { text } else { "unlimited".into() };
    let share = |used: i64, max: i64| match u64::try_from(max) {
        Ok(max) if max > 0 => {
            format!("{}%", u128::from(u64::try_from(used).unwrap_or(0)) * 100 / u128::from(max))
        }
        _ => String::new(),
    };
    let cells = rows.iter().map(|row| {
        let quota = row.quota;
        // Where one kind only is shown, its number says all.
        let name = match (&row.key, header) {
            (Key::UserQuota(id), "User ID") | (Key::GroupQuota(id), "Group ID") => id.to_string(),
            _ => row.name.clone(),
        };
        vec![
            name,
            limit(quota.max_space, short(quota.max_space)),
            short(quota.used_space),
            share(quota.used_space, quota.max_space),
            limit(quota.max_inodes, quota.max_inodes.to_string()),
            quota.used_inodes.to_string(),
            share(quota.used_inodes, quota.max_inodes),
        ]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    grid(&[header, "Size", "Used", "Use%", "Inodes", "IUsed", "IUse%"], &cells, true)
}

/// Bytes in three digits or so.
fn short(bytes: i64) -> String {
    let (mut value, mut unit) = (bytes.max(0) as f64, 0);
    if value < 10.0 {
        return format!("{value:.0} B");
    }
    while value >= 1024.0 && unit < 6 {
        value /= 1024.0;
        unit += 1;
    }
    let name = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].get(unit).copied().unwrap_or_default();
    let value = (value * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 { format!("{value:.1} {name}") } else { format!("{value:.0} {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown = [0, 9, 512, 4096, 20 << 10, 1 << 30, 3 << 29].map(short);
        assert_eq!(shown, ["0 B", "9 B", "512 B", "4.0 KiB", "20 KiB", "1.0 GiB", "1.5 GiB"]);
    }

    #[test]
    fn tables_are_those_scripts_look_for() {
        let quota = Quota { max_space: 1 << 30, max_inodes: -1, used_space: 20 << 10, used_inodes: 5 };
        let row = |key, name: &str| Row { key, name: name.into(), quota, found: None };
        let shown = table("Path/ID", &[row(Key::DirQuota(Ino(2)), "/d"), row(Key::UserQuota(7), "uid:7")]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines.get(1).copied(),
            Some("| Path/ID |   Size  |  Used  | Use% |   Inodes  | IUsed | IUse% |")
        );
        assert_eq!(
            lines.get(3).copied(),
            Some("| /d      | 1.0 GiB | 20 KiB |   0% | unlimited |     5 |       |")
        );
        assert!(table("User ID", &[row(Key::UserQuota(7), "uid:7")]).contains("| 7       |"));
    }
}
