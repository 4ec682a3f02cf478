//! Reads every block object of a volume that any client of the format wrote, and can write each anew. For the suite
//! that holds us against other clients: `blocks read SETTINGS FOLDER` leaves the plain blocks in a folder,
//! `blocks rewrite SETTINGS` puts every block back as we encode it, `blocks damage SETTINGS` refuses to
//! find an encrypted block sound that has one bit changed. SETTINGS is a file with the settings record. Knows no metadata engine.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

use anyhow::{Context, bail};
use bytes::Bytes;
use std::path::Path;
use zest_data::BlockCodec;
use zest_data::block::{BlockName, parse_block_key};
use zest_host::objects::{self, Store};
use zest_host::{RealChance, secrets};
use zest_types::volume::Settings;
use zest_world::Objects;

struct Volume {
    settings: Settings,
    codec: BlockCodec,
    store: Store,
}

fn open(path: &str) -> anyhow::Result<Volume> {
    let text = std::fs::read(path).with_context(|| path.to_owned())?;
    let mut settings = Settings::from_json(&text)?;
    settings.check()?;
    secrets::show(&mut settings)?;
    let codec = BlockCodec::of(&settings, secrets::passphrase().as_deref())?;
    let store = objects::open(&settings, objects::PATIENCE)?;
    Ok(Volume { settings, codec, store })
}

impl Volume {
    /// Every block's key, page by page; anything else below `chunks/` is an error.
    async fn blocks(&self) -> anyhow::Result<Vec<(String, BlockName)>> {
        let (prefix, mut all) = (format!("{}/chunks/", self.settings.name), Vec::new());
        let mut after = String::new();
        loop {
            let page = self.store.list(&prefix, &after, 1000).await?;
            let Some(last) = page.last() else { return Ok(all) };
            after.clone_from(&last.key);
            for object in page {
                let name = parse_block_key(&self.settings.name, self.settings.hash_prefix, &object.key);
                all.push((object.key.clone(), name.with_context(|| format!("{} is no block", object.key))?));
            }
        }
    }

    async fn block(&self, key: &str, len: u32) -> anyhow::Result<(Bytes, Bytes)> {
        let stored = self.store.get(key, None).await?;
        let plain = self.codec.decode(stored.clone(), len as usize, &RealChance::new());
        Ok((stored, plain.with_context(|| key.to_owned())?))
    }

    async fn uuid(&self) -> anyhow::Result<()> {
        let mark = self.store.get(&format!("{}/juicefs_uuid", self.settings.name), None).await?;
        let uuid = self.codec.decode_object(mark, &RealChance::new())?;
        if uuid != self.settings.uuid { bail!("juicefs_uuid holds {uuid:?}") } else { Ok(()) }
    }
}

async fn read(volume: &Volume, folder: &Path) -> anyhow::Result<usize> {
    volume.uuid().await?;
    let blocks = volume.blocks().await?;
    for (key, name) in &blocks {
        let (_, plain) = volume.block(key, name.len).await?;
        std::fs::write(folder.join(format!("{}_{}", name.block.slice, name.block.index)), plain)?;
    }
    Ok(blocks.len())
}

async fn rewrite(volume: &Volume) -> anyhow::Result<usize> {
    let blocks = volume.blocks().await?;
    for (key, name) in &blocks {
        let (_, plain) = volume.block(key, name.len).await?;
        volume.store.put(key, volume.codec.encode(plain, &RealChance::new())?).await?;
    }
    Ok(blocks.len())
}

async fn damage(volume: &Volume) -> anyhow::Result<usize> {
    let blocks = volume.blocks().await?;
    for (key, name) in &blocks {
        let (stored, plain) = volume.block(key, name.len).await?;
        let mut bad = stored.to_vec();
        if let Some(byte) = bad.last_mut() {
            *byte ^= 1;
        }
        if volume.codec.decode(bad.into(), plain.len(), &RealChance::new()).is_ok() {
            bail!("{key}: damage was not noticed");
        }
    }
    Ok(blocks.len())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let many = match words.as_slice() {
        ["read", settings, folder] => read(&open(settings)?, Path::new(folder)).await?,
        ["rewrite", settings] => rewrite(&open(settings)?).await?,
        ["damage", settings] => damage(&open(settings)?).await?,
        _ => bail!("usage: blocks read SETTINGS FOLDER | rewrite SETTINGS | damage SETTINGS"),
    };
    println!("{many}");
    Ok(())
}
