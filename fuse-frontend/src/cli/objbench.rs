//! `zest objbench BUCKET`: whether an object store does what a volume needs, and how fast. Ends with status 0 only when
//! every case passed and every request of the rates was answered rightly.

use super::{Global, begin_log, block_on, format, grid, units};
use crate::objbench::{Case, Rate, Verdict, Wish, cases, clear, rates};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use zest_host::objects::{self, Store};
use zest_types::limits;
use zest_types::volume::Settings;

/// Arguments of `objbench`.
#[derive(Args)]
pub(super) struct ObjBenchArgs {
    /// The bucket's address, or a directory.
    #[arg(value_name = "BUCKET")]
    bucket: String,
    /// What kind of store: file, s3, minio or mem.
    #[arg(long, value_name = "TYPE", default_value = "file")]
    storage: String,
    /// Access key of the object store.
    #[arg(long, value_name = "KEY", env = "ACCESS_KEY", hide_env_values = true)]
    access_key: Option<String>,
    /// Secret key of the object store; better given in SECRET_KEY, since others can see arguments.
    #[arg(long, value_name = "KEY", env = "SECRET_KEY", hide_env_values = true)]
    secret_key: Option<String>,
    /// Session token of the object store.
    #[arg(long, value_name = "TOKEN", env = "SESSION_TOKEN", hide_env_values = true)]
    session_token: Option<String>,
    /// Spread the objects over so many buckets, with %d in the address.
    #[arg(long, value_name = "N", default_value_t = 0)]
    shards: u32,
    /// Bytes of an object of the large part, in KiB or with a unit.
    #[arg(long, value_name = "SIZE", value_parser = units::kib, default_value = "4M")]
    block_size: u64,
    /// Bytes of the large part, in MiB or with a unit.
    #[arg(long, value_name = "SIZE", value_parser = units::mib, default_value = "1G")]
    big_object_size: u64,
    /// Bytes of a small object, in KiB or with a unit.
    #[arg(long, value_name = "SIZE", value_parser = units::kib, default_value = "128K")]
    small_object_size: u64,
    /// How many small objects; 0: no rates are measured.
    #[arg(long, value_name = "N", default_value_t = 100)]
    small_objects: u64,
    /// Bytes of the large object of the functional tests, in MiB or with a unit.
    #[arg(long, value_name = "SIZE", value_parser = units::mib, default_value = "256M")]
    large_object_size: u64,
    /// Measure only.
    #[arg(long)]
    skip_functional_tests: bool,
    /// Requests at once.
    #[arg(short = 'p', long, value_name = "N", default_value_t = 4)]
    threads: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Default)]
struct Found {
    cases: Vec<Case>,
    rates: Vec<Rate>,
    /// What was left in the bucket, and why.
    left: Option<String>,
}

/// Objects no larger than this are made in memory.
const MOST: u64 = 1 << 30;

impl ObjBenchArgs {
    pub(super) fn run(self, global: &Global) -> anyhow::Result<ExitCode> {
        begin_log(global);
        if !(1..=limits::WORKERS).contains(&self.threads) {
            bail!("--threads {}: write a number from 1 to {}", self.threads, limits::WORKERS);
        }
        if self.block_size == 0
            || self.block_size.max(self.small_object_size).max(self.large_object_size) > MOST
        {
            bail!("objects have from 1 byte to 1 GiB: correct the sizes");
        }
        let settings = self.settings()?;
        let found = block_on(async {
            let made = make(&settings).await;
            let store = objects::open(&settings, objects::PATIENCE)?;
            Ok(self.look(&store, made).await)
        })?;
        let text = if self.json { self.json_of(&found) } else { shown(&found) };
        crate::log::say(&text);
        Ok(if found.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let storage = if self.storage == "minio" { "s3" } else { &self.storage };
        let mut bucket = self.bucket.clone();
        if storage == "file" {
            let path = bucket.strip_prefix("file://").unwrap_or(&bucket);
            bucket = format::folder(Path::new(path))?;
        }
        let mut settings = Settings::new("objbench", "", storage, &bucket);
        settings.shards = self.shards;
        settings.access_key = self.access_key.clone().unwrap_or_default();
        settings.secret_key = self.secret_key.clone().unwrap_or_default();
        settings.session_token = self.session_token.clone().unwrap_or_default();
        Ok(settings)
    }

    async fn look(&self, store: &Store, made: Case) -> Found {
        let prefix = format!("objbench-{}/", uuid::Uuid::new_v4());
        let mut found = Found::default();
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(0);
        if !self.skip_functional_tests {
            found.cases.push(made);
            found.cases.extend(cases(store, &prefix, size(self.large_object_size)).await);
        }
        if self.small_objects > 0 {
            let wish = Wish {
                block: size(self.block_size),
                large: self.big_object_size,
                small: size(self.small_object_size),
                count: self.small_objects,
                threads: self.threads,
            };
            found.rates = rates(store, &prefix, wish).await;
        }
        found.left =
            clear(store, &prefix).await.err().map(|why| format!("objects under {prefix} are left: {why}"));
        found
    }

    fn json_of(&self, found: &Found) -> String {
        let cases: Vec<Value> = found
            .cases
            .iter()
            .map(|case| {
                let (result, why) = words(&case.verdict);
                json!({ "category": case.category, "test": case.name, "result": result, "why": why })
            })
            .collect();
        let rates: Vec<Value> = found
            .rates
            .iter()
            .map(|rate| {
                json!({
                    "item": rate.name, "value": rounded(rate.per_second), "unit": rate.unit,
                    "meanMs": millis(rate.mean), "p99Ms": millis(rate.late), "error": rate.failed,
                })
            })
            .collect();
        let all = json!({
            "bucket": self.bucket, "storage": self.storage, "threads": self.threads, "good": found.is_good(),
            "functional": cases, "performance": rates, "left": found.left,
        });
        serde_json::to_string_pretty(&all).unwrap_or_default()
    }
}

/// Makes what holds the objects, where it is missing.
async fn make(settings: &Settings) -> Case {
    let verdict = match settings.storage.as_str() {
        "s3" => match objects::make_bucket(settings).await {
            Ok(()) => Verdict::Pass,
            // It is there; whether it can be used, the others tell.
            Err(error) if error.to_string().contains("BucketAlreadyExists") => Verdict::Pass,
            // Who may use a bucket need not be allowed to make one.
            Err(error) => Verdict::Unsupported(error.to_string()),
        },
        "file" => {
            let dirs = objects::buckets(settings).unwrap_or_default();
            let made =
                dirs.iter().try_for_each(std::fs::create_dir_all).context("the directory can't be made");
            made.map_or_else(|error| Verdict::Failed(format!("{error:#}")), |()| Verdict::Pass)
        }
        _ => Verdict::Pass,
    };
    Case { category: "basic", name: "create a bucket", verdict }
}

impl Found {
    fn is_good(&self) -> bool {
        let failed = |case: &Case| matches!(case.verdict, Verdict::Failed(_));
        !self.cases.iter().any(failed)
            && self.rates.iter().all(|rate| rate.failed.is_none())
            && self.left.is_none()
    }
}

fn words(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Pass => ("pass", None),
        Verdict::Unsupported(why) => ("not support", Some(why)),
        Verdict::Failed(why) => ("failed", Some(why)),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn millis(time: std::time::Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0)
}

/// Tables, and below them in full what is wrong.
fn shown(found: &Found) -> String {
    let mut out = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    if !found.cases.is_empty() {
        let rows: Vec<Vec<String>> = found
            .cases
            .iter()
            .map(|case| {
                let (result, why) = words(&case.verdict);
                wrong.extend(why.map(|why| format!("{}: {result}: {why}", case.name)));
                vec![case.category.to_uppercase(), case.name.into(), result.into()]
            })
            .collect();
        out.push(grid::grid(&["CATEGORY", "TEST", "RESULT"], &rows, true));
    }
    if !found.rates.is_empty() {
        let rows: Vec<Vec<String>> = found
            .rates
            .iter()
            .map(|rate| {
                wrong.extend(rate.failed.as_ref().map(|why| format!("{}: {why}", rate.name)));
                let value = match rate.failed {
                    Some(_) => "failed".into(),
                    None => format!("{:.2} {}", rate.per_second, rate.unit),
                };
                vec![
                    rate.name.into(),
                    value,
                    format!("{:.2} ms", millis(rate.mean)),
                    format!("{:.2} ms", millis(rate.late)),
                ]
            })
            .collect();
        out.push(grid::grid(&["ITEM", "VALUE", "MEAN", "P99"], &rows, true));
    }
    out.extend(wrong);
    out.extend(found.left.clone());
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_told_and_is_no_success() {
        let case = |verdict| Case { category: "basic", name: "put an object", verdict };
        let mut found = Found {
            cases: vec![case(Verdict::Pass), case(Verdict::Unsupported("no".into()))],
            ..Found::default()
        };
        assert!(found.is_good());
        found.cases.push(case(Verdict::Failed("it is full".into())));
        assert!(!found.is_good());
        let text = shown(&found);
        assert!(
            text.contains("| put an object |") && text.ends_with("put an object: failed: it is full"),
            "{text}"
        );
        assert!(!Found { left: Some("x".into()), ..Found::default() }.is_good());
    }
}
