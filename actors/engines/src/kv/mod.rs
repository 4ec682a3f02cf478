//! The key-value layout of a volume: logical keys and records to bytes and back. Pure, and safe against any
//! bytes: what can't be a record is a typed error with the key in it, never a panic and never a default. Source:
//! volume format, KV engines. Knows no store.

mod attr;
mod fields;
mod key;
mod range;
mod record;
mod sweep;
pub mod view;

pub(crate) use key::counter_name as format_name;
pub use key::{decode_key, encode_key};
pub use range::{KeyRange, limit_of, next_scan, scan_range};
pub use record::{decode_record, encode_record, is_number};
pub use view::{Batch, Bytes, Pair, View};

use zest_metadata::{EngineError, Key};

/// Why bytes and records do not fit together.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CodecError {
    /// The bytes name no record this program knows.
    #[error("the key {0} names no record known to this program")]
    UnknownKey(String),
    /// The value under a key can't be what the key says.
    #[error("record {key}: {why}")]
    Value {
        /// Which record.
        key: String,
        /// What is wrong.
        why: &'static str,
    },
}

impl CodecError {
    fn unknown(bytes: &[u8]) -> CodecError {
        CodecError::UnknownKey(bytes.escape_ascii().to_string())
    }

    fn value(key: &Key, why: &'static str) -> CodecError {
        CodecError::Value { key: format!("{key:?}"), why }
    }
}

impl From<CodecError> for EngineError {
    fn from(error: CodecError) -> EngineError {
        match error {
            CodecError::UnknownKey(key) => {
                EngineError::Damaged { key, why: "it names no known record".into() }
            }
            CodecError::Value { key, why } => EngineError::Damaged { key, why: why.into() },
        }
    }
}
