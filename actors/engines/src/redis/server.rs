//! What a server says about itself, for whoever judges whether metadata are safe there.

use super::RedisEngine;
use super::record::{pairs, text};
use std::collections::BTreeMap;
use zest_metadata::EngineError;

/// What the server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Fields of `INFO`.
    pub info: BTreeMap<String, String>,
    /// Values of `CONFIG GET`; empty where the server does not tell.
    pub config: BTreeMap<String, String>,
    /// Names of keys that no volume has, some of them, as far as it was looked.
    pub strangers: Vec<String>,
}

impl RedisEngine {
    /// Asks the server about itself.
    pub async fn server(&self) -> Result<ServerInfo, EngineError> {
        let answer = self.ask(redis::cmd("INFO").arg("everything")).await?;
        let lines = text(answer).map_err(|why| EngineError::Failed(why.into()))?.unwrap_or_default();
        let info = lines.lines().filter_map(|line| line.split_once(':'));
        let info = info.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        let mut config = BTreeMap::new();
        for name in [
            "maxmemory-policy",
            "maxmemory",
            "appendonly",
            "appendfsync",
            "save",
            "stop-writes-on-bgsave-error",
        ] {
            // Some servers do not let their settings be read; then `INFO` must do.
            let Ok(answer) = self.ask(redis::cmd("CONFIG").arg("GET").arg(name)).await else { continue };
            for (name, value) in pairs(answer).unwrap_or_default() {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                config.insert(text(name), text(value));
            }
        }
        // A server that lets nobody scan tells nothing of its keys.
        let strangers = super::strangers::look(self).await.unwrap_or_default();
        Ok(ServerInfo { info, config, strangers })
    }
}
