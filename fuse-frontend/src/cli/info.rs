//! `zest info PATH…`: what files and directories of a mount are made of. Asked at the process that serves the mount.
//! What can't be looked up is told and passed over, and the status says so in the end.

use super::grid::{bytes, grid};
use crate::control;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Arguments of `info`.
#[derive(Args)]
pub(super) struct InfoArgs {
    /// Files and directories; with --inode numbers of nodes.
    #[arg(value_name = "PATH|INODE", required = true)]
    what: Vec<String>,
    /// The arguments are numbers of nodes of the mount one is in.
    #[arg(short, long)]
    inode: bool,
    /// Count all that is below a directory.
    #[arg(short, long)]
    recursive: bool,
    /// Look at every node: it is always done.
    #[arg(long, hide = true)]
    strict: bool,
    /// Show slices instead of objects.
    #[arg(long)]
    raw: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl InfoArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (mut failed, mut all) = (0, Vec::new());
        for what in &self.what {
            match self.ask(what) {
                Ok(found) if self.json => all.push(found),
                Ok(found) => crate::log::say(&text(what, &found, self.raw)),
                Err(error) => {
                    failed += 1;
                    crate::log::tell(&format!("{what}: {error:#}"));
                }
            }
        }
        if self.json {
            crate::log::say(&format!("{:#}", Value::Array(all)));
        }
        if failed > 0 {
            bail!("{failed} of {} could not be looked up", self.what.len());
        }
        Ok(())
    }

    fn ask(&self, what: &str) -> anyhow::Result<Value> {
        let place = if self.inode { Path::new(".") } else { Path::new(what) };
        let stat = std::fs::symlink_metadata(place)?;
        let ino = if self.inode { what.parse().context("it is no number of a node")? } else { stat.ino() };
        let device = format!("{}:{}", rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
        let flags = format!("{}{}", if self.recursive { "r" } else { "" }, if self.raw { "s" } else { "" });
        let answer = control::ask_patiently(&control::mount_name(&device), &format!("info {ino} {flags}"))
            .ok_or_else(|| anyhow!("it is in no mount of zest on this machine"))?;
        let found: Value =
            serde_json::from_str(&answer).map_err(|_| anyhow!("the mount does not answer: see its log"))?;
        match found.get("error").and_then(Value::as_str) {
            Some(why) => Err(anyhow!("{why}")),
            None => Ok(found),
        }
    }
}

/// The lines and tables of one node.
fn text(what: &str, found: &Value, raw: bool) -> String {
    let number = |name: &str| found.get(name).and_then(Value::as_u64).unwrap_or(0);
    let mut lines = vec![format!("{what} :")];
    for (name, shown) in [("inode", "inode"), ("files", "files"), ("dirs", "dirs")] {
        lines.push(format!("{shown:>7}: {}", number(name)));
    }
    for name in ["length", "size"] {
        lines.push(format!("{name:>7}: {}", bytes(number(name))));
    }
    let paths: Vec<&str> = found
        .get("paths")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match paths[..] {
        [path] => lines.push(format!("{:>7}: {path}", "path")),
        _ => {
            lines.push(format!("{:>7}:", "paths"));
            lines.extend(paths.iter().map(|path| format!("\t{path}")));
        }
    }
    lines.push(format!("{:>7}: {}", "tier", number("tier")));
    if let Some(waits) = found.get("staged") {
        let number = |name: &str| waits.get(name).and_then(Value::as_u64).unwrap_or(0);
        lines.push(format!("{:>7}: {} blocks, {}", "staged", number("blocks"), bytes(number("bytes"))));
    }
    let mut table = |name: &str, header: &[&str], left: bool| {
        let Some(rows) = found.get(name).and_then(Value::as_array).filter(|rows| !rows.is_empty()) else {
            return;
        };
        let cell = |row: &Value, column: &&str| match row.get(column) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| header.iter().map(|column| cell(row, column)).collect()).collect();
        lines.push(format!(" {name}:"));
        lines.push(grid(header, &rows, left));
    };
    if raw {
        table("chunks", &["chunkIndex", "sliceId", "size", "offset", "length"], false);
    } else {
        table("objects", &["chunkIndex", "objectName", "size", "offset", "length", "pos"], false);
    }
    table("flocks", &["Sid", "Owner", "Type"], true);
    table("plocks", &["Sid", "Owner", "Type", "Pid", "Start", "End"], true);
    if found.get("cut").and_then(Value::as_bool) == Some(true) {
        lines.push("(there are more)".into());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_those_scripts_look_for() {
        let found = json!({
            "inode": 4, "files": 1, "dirs": 0, "length": 2, "size": 4096, "paths": ["/d/t"], "tier": 0,
            "objects": [{ "chunkIndex": 0, "objectName": "v/chunks/0/0/1_0_2", "size": 2, "offset": 0, "length": 2, "pos": 0 }],
        });
        let shown = text("m/d/t", &found, false);
        let begins = "m/d/t :\n  inode: 4\n  files: 1\n   dirs: 0\n length: 2 Bytes\n   size: 4.00 KiB (4096 Bytes)\n   path: /d/t\n   tier: 0\n objects:\n+-";
        assert!(shown.starts_with(begins), "{shown}");
        let waits = text("f", &json!({ "paths": ["/a"], "staged": { "blocks": 2, "bytes": 10 } }), true);
        assert!(waits.contains("\n staged: 2 blocks, 10 Bytes"), "{waits}");
        let two = text("f", &json!({ "paths": ["/a", "/b"] }), true);
        assert!(two.contains("  paths:\n\t/a\n\t/b\n"), "{two}");
    }
}
