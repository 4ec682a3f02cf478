//! `zest mount META-URL MOUNTPOINT`: serves a volume, in the foreground or in the background.

use super::cache::CacheArgs;
use super::compat::Compat;
use super::metrics::MetricsArgs;
use super::staging::StagingArgs;
use super::traffic::TrafficArgs;
use super::{Global, block_on, format, meta_url, units, version};
use crate::door::{DoorOptions, Ttl};
use crate::meta_url::MetaUrl;
use crate::serve::{DoorKind, Life, Plan, serve, subdir};
use crate::supervise::{self, Fixed, Launch, PROTOCOL, Refusal};
use crate::volume::{VolumeError, stored_settings};
use crate::{background, log, memory, mount_point};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use fuser::MountOption;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use zest_data::Shares;
use zest_types::{Ino, Name};

/// Arguments of `mount`.
#[derive(Args)]
pub(super) struct MountArgs {
    /// The volume: a directory, or the URL of a metadata server such as redis://HOST/1.
    #[arg(value_name = "META-URL")]
    url: String,
    /// Where to mount it: an empty directory.
    #[arg(value_name = "MOUNTPOINT")]
    point: PathBuf,
    /// Make the volume and the mount point first, if they are missing.
    #[arg(long)]
    create: bool,
    /// Run in the background; come back once the mount can be used.
    #[arg(short = 'd', long, conflicts_with = "foreground")]
    background: bool,
    /// Run in the foreground, as without -d.
    #[arg(short, long, hide = true)]
    foreground: bool,
    /// Mount this directory of the volume as if it were all of it; it is made if it is missing.
    #[arg(long, value_name = "PATH")]
    subdir: Option<String>,
    /// Change nothing.
    #[arg(long)]
    read_only: bool,
    /// Options as of mount(8), separated by commas: ro, allow_other, nonempty, fsname=…, dev, suid, noexec, …
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Write the log to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// How long the kernel may believe attributes [default: 1h where nobody else can change the volume; 4 heartbeats where
    /// it is told what others change; else 1s].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    attr_cache: Option<Duration>,
    /// The same for names of files [default: as for attributes].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    entry_cache: Option<Duration>,
    /// The same for names of directories [default: as for attributes].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    dir_entry_cache: Option<Duration>,
    /// The same for names that do not exist [default: as for attributes, but 0 instead of 1s].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    negative_entry_cache: Option<Duration>,
    /// The kernel may keep listings of directories [default: true where nobody else can change the volume, unless
    /// --attr-cache is 0].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    readdir_cache: Option<bool>,
    /// Opening a file believes what is known of it for this long, and does not ask the metadata server: what others
    /// wrote is then seen late.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0")]
    open_cache: Duration,
    /// With fuser's door: locks set with fcntl hold for all clients of the volume, on a metadata server; without it they
    /// hold inside this mount, as locks set with flock always do there. Our own door keeps both kinds in the volume.
    #[arg(long)]
    posix_locks: bool,
    /// How often to tell the metadata server that this mount lives, and to look at the volume's settings; all who
    /// mount a volume should agree on it.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "12s")]
    heartbeat: Duration,
    /// Don't clean up after others.
    #[arg(long)]
    no_bgjob: bool,
    /// Mount with a metadata server that may lose data.
    #[arg(long)]
    force_unsafe_engine: bool,
    /// Try the object store before mounting.
    #[arg(long)]
    check_storage: bool,
    /// Memory that this mount may take, in MiB or with a unit, at least 64M; all parts get their shares of it [default:
    /// half of what the control group may have, or a quarter of the machine's, and not more than 4G].
    #[arg(long, value_name = "SIZE", value_parser = units::mib)]
    memory: Option<u64>,
    /// Bytes written but not yet stored, in MiB or with a unit, at least 32M [default: a share of the memory, and not more
    /// than 300M].
    #[arg(long, value_name = "SIZE", value_parser = units::mib)]
    buffer_size: Option<u64>,
    /// Bytes of blocks kept in memory, in MiB or with a unit [default: a share of the memory, and not more than 256M].
    #[arg(long, value_name = "SIZE", value_parser = units::mib)]
    memory_cache: Option<u64>,
    /// Extended attributes; --enable-xattr=false saves the kernel a question with every write [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_xattr: Option<bool>,
    /// Serve the attribute security.capability.
    #[arg(long)]
    enable_cap: bool,
    /// Serve the attribute security.selinux.
    #[arg(long)]
    enable_selinux: bool,
    /// The way from the kernel: our own over rings of io_uring (uring) or /dev/fuse (dev), or the library fuser's.
    #[arg(long, value_name = "DOOR", value_enum, default_value_t)]
    door: DoorKind,
    /// One process only: without the one that starts another when it dies, and that lets a newer program go on. For
    /// those who have something of their own for that.
    #[arg(long)]
    no_supervisor: bool,
    /// Record what kernel and door say to each other into a new file, file contents included; only with our own door.
    #[arg(long, value_name = "FILE", hide = true)]
    record: Option<PathBuf>,
    #[command(flatten)]
    staging: StagingArgs,
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    compat: Compat,
}

/// What `-o` asked for.
#[derive(Debug, Default, PartialEq)]
struct Wishes {
    read_only: bool,
    allow_other: bool,
    nonempty: bool,
    source: Option<String>,
    kernel: Vec<MountOption>,
}

fn wishes(options: &[String]) -> anyhow::Result<Wishes> {
    let mut wishes = Wishes::default();
    for option in options.iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
        match option {
            "ro" => wishes.read_only = true,
            "allow_other" => wishes.allow_other = true,
            "nonempty" => wishes.nonempty = true,
            "dev" => wishes.kernel.push(MountOption::Dev),
            "suid" => wishes.kernel.push(MountOption::Suid),
            "noexec" => wishes.kernel.push(MountOption::NoExec),
            "noatime" => wishes.kernel.push(MountOption::NoAtime),
            "sync" => wishes.kernel.push(MountOption::Sync),
            "dirsync" => wishes.kernel.push(MountOption::DirSync),
            // As it is anyway.
            "rw"
            | "nodev"
            | "nosuid"
            | "exec"
            | "async"
            | "async_dio"
            | "default_permissions"
            | "_netdev"
            | "defaults" => {}
            "writeback_cache" => bail!("-o writeback_cache is not supported: leave it out"),
            other => match other.split_once('=') {
                Some(("fsname", name)) => wishes.source = Some(name.to_owned()),
                _ => bail!("-o {other} is not known: leave it out, or see zest mount --help"),
            },
        }
    }
    Ok(wishes)
}

/// Smallest budget for writes that can be asked for, as in JuiceFS.
const BUFFER_MIN: u64 = 32 << 20;

impl MountArgs {
    pub(super) fn run(self, global: &Global) -> anyhow::Result<ExitCode> {
        let url = meta_url(&self.url)?;
        if !supervise::is_worker() && !background::is_child() && self.goes_on(global, &url)? {
            return Ok(ExitCode::SUCCESS);
        }
        if self.background && !background::is_child() && !supervise::is_worker() {
            return background::start(&global.given).context("the mount can't be started in the background");
        }
        let log = self.begin_log(global)?;
        log::catch_panics();
        if self.is_supervised() && !supervise::is_worker() {
            let launch = Launch::again(&global.given).context("the mount can't be started")?;
            return supervise::run(launch, log.filter(|_| self.background));
        }
        if let Some(size) = self.buffer_size.filter(|size| *size < BUFFER_MIN) {
            bail!("--buffer-size {size} is too small: at least {} MiB", BUFFER_MIN >> 20);
        }
        self.shares()?;
        let wishes = wishes(&self.options)?;
        for option in self.compat.judge()? {
            tracing::warn!("--{option} has no effect in this version");
        }
        let subdir = subdir::names(self.subdir.as_deref().unwrap_or_default());
        let subdir = subdir.map_err(|why| anyhow!("--subdir: {why}"))?;
        self.cache.check()?;
        let absolute = url.absolute().with_context(|| format!("{url} can't be used"))?;
        self.staging.check(self.cache.given())?;
        let life = supervise::is_worker().then(|| Life::take(self.fixed(String::new(), &subdir, &wishes)));
        let life = life.transpose()?;
        // Nobody may look at a mount that nobody serves yet.
        let there = life.as_ref().and_then(Life::point).map(Path::to_owned);
        let again = there.is_some();
        let point = there.map_or_else(|| self.prepare(&url, &absolute, &wishes), Ok)?;
        if self.background {
            background::detach();
        }
        let shown = self.point.display().to_string();
        let background = self.background;
        let metrics = self.metrics.open()?;
        let plan = Plan { metrics, life, ..self.plan(absolute, point.clone(), subdir, wishes)? };
        serve(plan, move |name| match log {
            _ if again => {
                tracing::info!("volume {name:?} ({url}) is served at {shown} by this process from now on");
                Ok(())
            }
            Some(log) if background => {
                background::ready(&format!("OK, {name} is ready at \"{}\"", point.display()), &log)?;
                Ok(())
            }
            _ => {
                crate::log::say(&format!(
                    "volume {name:?} ({url}) is mounted at {shown}: work in it; stop with Ctrl-C or: zest umount {shown}"
                ));
                Ok(())
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Whether another process shall hold what this one has of the mount.
    fn is_supervised(&self) -> bool {
        self.door == DoorKind::Dev && !self.no_supervisor && self.record.is_none()
    }

    /// What can't change without a new mount.
    fn fixed(&self, volume: String, subdir: &[Name], wishes: &Wishes) -> Fixed {
        Fixed {
            protocol: PROTOCOL,
            volume,
            subdir: subdir.iter().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect(),
            read_only: self.read_only || wishes.read_only,
            allow_other: wishes.allow_other || rustix::process::geteuid().is_root(),
            kernel: wishes.kernel.iter().map(|option| format!("{option:?}")).collect(),
            capability: self.enable_cap,
        }
    }

    /// Where the volume is mounted at this place already, and has a supervisor, the mount goes on with this program
    /// and these options.
    fn goes_on(&self, global: &Global, url: &MetaUrl) -> anyhow::Result<bool> {
        let Some(there) = mount_point::find(&self.point).ok().filter(|_| self.is_supervised()) else {
            return Ok(false);
        };
        self.shares()?;
        self.compat.judge()?;
        self.cache.check()?;
        self.staging.check(self.cache.given())?;
        let wishes = wishes(&self.options)?;
        let subdir = subdir::names(self.subdir.as_deref().unwrap_or_default());
        let subdir = subdir.map_err(|why| anyhow!("--subdir: {why}"))?;
        let Some(settings) = block_on(async { Ok(stored_settings(url).await?) })? else { return Ok(false) };
        let fixed = self.fixed(settings.uuid, &subdir, &wishes);
        let shown = self.point.display();
        match supervise::upgrade(&there.device, fixed, &global.given) {
            Ok(()) => {
                log::say(&format!("OK, {} at {shown} goes on with this program", settings.name));
                Ok(true)
            }
            Err(Refusal::Nobody) => Ok(false),
            Err(Refusal::Because(why)) => {
                bail!("{shown} is mounted, and can't go on with this program and these options: {why}")
            }
        }
    }

    /// What each part may take of memory.
    fn shares(&self) -> anyhow::Result<Shares> {
        let total = self.memory.unwrap_or_else(memory::usual);
        if total < memory::LEAST {
            bail!("--memory {total} is too small: at least {} MiB", memory::LEAST >> 20);
        }
        let blocks = self.memory_cache.or(self.cache.memory());
        let shares = Shares::of(total).with(self.buffer_size, blocks);
        if self.memory.is_some() && shares.sum() > total {
            bail!(
                "--memory {} MiB is less than its parts, {} MiB: raise it, or lower --buffer-size or --memory-cache",
                total >> 20,
                shares.sum().div_ceil(1 << 20)
            );
        }
        Ok(shares)
    }

    /// Looks whether there is a volume, and a place to mount it; makes them where that was asked for.
    fn prepare(&self, url: &MetaUrl, absolute: &MetaUrl, wishes: &Wishes) -> anyhow::Result<PathBuf> {
        let settings = block_on(async { Ok(stored_settings(url).await?) })?;
        if settings.is_none() && !self.create {
            bail!("{}, or add --create to this command", VolumeError::NotFormatted(url.to_string()));
        }
        let local = absolute.local().map(|place| place.path.clone());
        let bucket = settings.as_ref().and_then(|settings| Path::new(&settings.bucket).canonicalize().ok());
        let needed: Vec<PathBuf> = local.into_iter().chain(bucket).collect();
        let point = mount_point::prepare(&self.point, &needed, wishes.nonempty, self.create)?;
        if settings.is_none() {
            format::make_default(url, self.force_unsafe_engine)?;
        }
        Ok(point)
    }

    /// The log: a file for a mount in the background or where one was named, else stderr.
    fn begin_log(&self, global: &Global) -> anyhow::Result<Option<File>> {
        let path = self.log.clone().or_else(|| self.background.then(log::default_path));
        let open = |path: PathBuf| {
            log::open(&path)
                .with_context(|| format!("log {} can't be written: name another with --log", path.display()))
        };
        let file = path.map(open).transpose()?;
        let copy = file.as_ref().map(File::try_clone).transpose()?;
        log::begin(global.level(), !global.no_color, file);
        Ok(copy)
    }

    fn plan(self, url: MetaUrl, point: PathBuf, subdir: Vec<Name>, wishes: Wishes) -> anyhow::Result<Plan> {
        let shared = url.local().is_none();
        let all = if shared { Ttl::SHARED } else { Ttl::EXCLUSIVE };
        let ttl = Ttl {
            attr: self.attr_cache.unwrap_or(all.attr),
            entry: self.entry_cache.unwrap_or(all.entry),
            dir_entry: self.dir_entry_cache.unwrap_or(all.dir_entry),
            negative: self.negative_entry_cache.unwrap_or(all.negative),
        };
        let heartbeat = self.heartbeat.clamp(HEARTBEAT.0, HEARTBEAT.1);
        let long = Ttl::told(heartbeat);
        let told = Ttl {
            attr: self.attr_cache.unwrap_or(long.attr),
            entry: self.entry_cache.unwrap_or(long.entry),
            dir_entry: self.dir_entry_cache.unwrap_or(long.dir_entry),
            negative: self.negative_entry_cache.unwrap_or(long.negative),
        };
        let cache = self.cache.plan();
        let traffic = self.traffic.plan();
        Ok(Plan {
            url,
            options: zest_vfs::Options {
                read_only: self.read_only || wishes.read_only,
                lease: ttl.attr.clamp(LEASE.0, LEASE.1),
                open_cache: if shared { self.open_cache } else { Duration::ZERO },
                heartbeat,
                background_jobs: !self.no_bgjob,
                memory: self.shares()?,
                cache: cache.settings.clone(),
                max_uploads: traffic.uploads,
                max_downloads: traffic.downloads,
                readahead: traffic.readahead,
                prefetch: traffic.prefetch,
                session_info: session_info(&point),
                ..zest_vfs::Options::default()
            },
            point,
            subdir,
            staging: self.staging.plan(self.cache.given(), traffic.uploads),
            traffic: traffic.traffic,
            cache,
            force_unsafe_engine: self.force_unsafe_engine,
            check_storage: self.check_storage,
            kind: self.door,
            record: self.record,
            door: DoorOptions {
                ttl,
                told: shared.then_some(told),
                root: Ino::ROOT,
                // What the kernel may not believe about a directory it may not list by itself.
                dir_cache: self.readdir_cache.unwrap_or(!shared && !ttl.attr.is_zero()),
                xattr: self.enable_xattr.unwrap_or(true),
                capability_xattr: self.enable_cap,
                selinux_xattr: self.enable_selinux,
                shared,
                posix_locks: self.posix_locks && shared,
                check: false,
            },
            kernel: wishes.kernel,
            allow_other: wishes.allow_other || rustix::process::geteuid().is_root(),
            source: wishes.source,
            metrics: None,
            life: None,
        })
    }
}

/// How long reads may believe lengths and chunk lists where others change the volume. The kernel holds attributes for
/// as long as the user says; this only bounds what an open file shows of others' writes.
const LEASE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Times between heartbeats the volume format allows.
const HEARTBEAT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// The record of this mount's session. Source: volume format, session record.
fn session_info(point: &Path) -> Vec<u8> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let info = serde_json::json!({
        "Version": version::session(),
        "HostName": host.trim_end(),
        "IPAddrs": addresses(&std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default()),
        "MountPoint": point.to_string_lossy(),
        "MountTime": chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Nanos, true),
        "ProcessID": std::process::id(),
    });
    info.to_string().into_bytes()
}

/// Addresses of this machine, out of the kernel's table of routes; not those only it can reach.
fn addresses(routes: &str) -> Vec<String> {
    let mut found = std::collections::BTreeSet::new();
    let mut last = "";
    for line in routes.lines() {
        if let Some(address) = line.trim().strip_prefix("|-- ") {
            last = address;
        } else if line.contains("/32 host LOCAL") && !last.starts_with("127.") {
            found.insert(last.to_owned());
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<Wishes> {
        wishes(&[text.to_owned()])
    }

    #[test]
    fn options_of_mount() {
        let all = parse("ro,allow_other,,nonempty,fsname=x,dev,rw").unwrap();
        let kernel = vec![MountOption::Dev];
        let source = Some("x".to_owned());
        assert_eq!(all, Wishes { read_only: true, allow_other: true, nonempty: true, source, kernel });
        assert!(parse("nonsense").unwrap_err().to_string().contains("-o nonsense"));
        assert!(parse("writeback_cache").is_err());
    }

    #[test]
    fn addresses_of_a_machine() {
        let routes = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\nLocal:\n     |-- 10.0.0.7\n        /32 host LOCAL\n";
        assert_eq!(addresses(routes), ["10.0.0.7"]);
    }
}
