//! A small file beside the records: which layout they have, and a copy of the settings for those who want to look
//! while another process has the volume. It is written after the records, so it never says more than they do;
//! where it is missing or old, the records are right and opening writes it again.

use super::error::OpenError;
use std::io;
use std::sync::Arc;
use zest_world::{Disk, DiskFile};

const FILE: &str = "zest.volume";
const HEAD: &[u8] = b"zest embedded metadata, layout 1\n";
/// The part of the head that all layouts share.
const FAMILY: usize = 31;
/// More is no settings record.
const MAX: u64 = 1 << 20;

/// The file, open.
pub(super) struct Label(Arc<dyn DiskFile>);

impl Label {
    /// The copy of the settings, empty when none were stored yet; `None` where no volume was begun.
    pub(super) fn read(disk: &dyn Disk) -> Result<Option<Vec<u8>>, OpenError> {
        let file = match disk.open(FILE, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        parse(&content(&*file)?)
    }

    /// Opens the label and makes it say what the records say.
    pub(super) fn settle(disk: &dyn Disk, settings: Vec<u8>) -> Result<Label, OpenError> {
        let old = Label::read(disk)?;
        let label = Label(disk.open(FILE, true)?);
        if old.as_ref() != Some(&settings) {
            label.write(&settings)?;
        }
        if old.is_none() {
            disk.sync_names()?;
        }
        Ok(label)
    }

    pub(super) fn write(&self, settings: &[u8]) -> io::Result<()> {
        let bytes = [HEAD, settings].concat();
        self.0.write_at(0, &bytes)?;
        self.0.set_len(bytes.len() as u64)?;
        self.0.sync()
    }
}

fn content(file: &dyn DiskFile) -> Result<Vec<u8>, OpenError> {
    let len = usize::try_from(file.len()?.min(MAX)).unwrap_or_default();
    let mut bytes = vec![0; len];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Option<Vec<u8>>, OpenError> {
    if let Some(settings) = bytes.strip_prefix(HEAD) {
        return Ok(Some(settings.to_vec()));
    }
    // What a crash leaves of a label that was never synced: nothing, or zeros.
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match (line.get(..FAMILY), HEAD.get(..FAMILY)) {
        (Some(found), Some(family)) if found == family => {
            Err(OpenError::Layout(String::from_utf8_lossy(line).into_owned()))
        }
        _ => Err(OpenError::Unusable(format!("{FILE} was not written by this program"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_tells_ours_from_others() {
        let ours = [HEAD, b"{}"].concat();
        assert_eq!(parse(&ours).unwrap(), Some(b"{}".to_vec()));
        assert_eq!(parse(HEAD).unwrap(), Some(Vec::new()));
        assert_eq!(parse(&[0; 40]).unwrap(), None);
        assert_eq!(parse(b"").unwrap(), None);
        assert!(matches!(parse(b"zest embedded metadata, layout 2\n{}"), Err(OpenError::Layout(_))));
        assert!(matches!(parse(b"hello"), Err(OpenError::Unusable(_))));
    }
}
