//! The meaning of file requests: records, rules as pure functions from records to change sets, views, locks,
//! and the MetadataActor in front of them. Knows no engine, no bytes of a record, no file content.

pub mod acl;
pub mod actor;
pub mod apply;
pub mod change;
pub mod clone;
pub mod compaction;
pub mod consistency;
pub mod engine;
pub mod format;
pub mod key;
pub mod map;
pub mod op;
pub mod record;
pub mod restore;
pub mod rules;
pub mod session;
pub mod snapshot;
pub mod transact;
pub mod trash;
mod unknown;
pub mod views;

pub use actor::{Beat, Change, Find, Look, MetadataActor, SyncRecords, TakeIds};
pub use change::{AttrDelta, AttrFields, ChangeSet, Expect, Write};
pub use engine::{
    Applied, Changed, CommitError, Engine, EngineError, Lengths, Listener, SlicePage, Stall, Stalls, grown,
};
pub use key::{Counter, Key, Scan};
pub use op::{Env, Op, Outcome};
pub use record::Record;
pub use snapshot::{Snapshot, Stop, Want};
pub use transact::{MetaCore, OpenFiles, VolumeRules};
pub use views::Views;
