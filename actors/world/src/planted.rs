//! Bugs planted on purpose, to prove that the simulator finds their kind. Without the feature `planted` the
//! question is answered `false` when this compiles, and the bug is not in the program at all.

/// A bug that can be switched on for one simulated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bug {
    /// The uploader commits a slice before its blocks are in the store.
    CommitBeforeUpload,
    /// A failed upload is reported as done.
    SwallowedUploadError,
    /// Cached chunk lists survive a truncate.
    StaleReadAfterTruncate,
    /// Rename is committed as two change sets.
    RenameInTwoSteps,
    /// A link does not raise the link count.
    LostNlink,
    /// A committed write does not raise the length in the views.
    LengthNotRefreshed,
    /// A read does not look at unflushed writes.
    UnflushedReadMissed,
    /// After a conflict the change is decided again from the old records.
    RetryOnOldSnapshot,
    /// The engine says durable without having synced the disk.
    FsyncDoesNothing,
    /// After an unknown outcome the change is simply sent again.
    UnknownRepeated,
    /// A commit whose connection broke is sent again on the next one.
    LostReplyRepeated,
    /// Of everything a change set expects, the commit script is told the first only.
    KeyNotChecked,
    /// What the server tells of others' changes is thrown away.
    InvalidationDropped,
    /// An answer that takes long becomes an error.
    StallBecomesError,
    /// A lost connection is made again without pauses.
    ReconnectStorm,
    /// That a name does not exist is believed for ever.
    NegativeEntrySurvives,
    /// What was pushed on a connection that was lost is believed on the next one.
    SilenceBelieved,
    /// A transaction does not watch what it read.
    WatchForgotten,
    /// A transaction that was refused is taken for one that was made.
    AbortTakenForDone,
    /// A conflict is told from records that are not of one moment.
    ConflictUnconfirmed,
    /// Of the staging journal, records at a torn end are believed.
    TornTailBelieved,
    /// Of a file's staged blocks the youngest goes up first.
    YoungOvertakesOld,
    /// A staged block counts as durable before the disk was synced.
    ReplyBeforeGroupSync,
    /// Files of the staging journal go although blocks wait in them.
    TrimDropsStaged,
    /// What a session has locked stays locked when it ends.
    LockOutlivesSession,
    /// Sessions are ended although they say that they live.
    LiveSessionEnded,
    /// A lock for one alone is given while others hold shared ones.
    SharedLockIgnored,
    /// A copy of a file does not raise the references of the slices it shares.
    LostCloneReference,
    /// A copy of bytes does not raise the references of the slices it shares.
    CopyWithoutReference,
    /// A new node does not count for the quotas above it.
    QuotaNotCharged,
    /// That a directory is empty is seen, and not expected.
    FullDirectoryRemoved,
    /// A removed entry stays in its directory's statistics.
    StatisticsStay,
    /// What is removed does not go to the trash.
    TrashPassedBy,
    /// The trash is emptied before its time.
    TrashExpiresEarly,
    /// A removed file goes although somebody has it open.
    RemovedWhileOpen,
    /// What is gone is still counted as used.
    UsageStays,
    /// Objects go before the records that name them are gone for good.
    ObjectsBeforeRecords,
    /// A write is taken by a mount that takes no changes any more.
    WriteAfterFencing,
    /// Nobody is told of a write that was lost.
    LostWriteUntold,
    /// An fsync does not wait for uploads.
    FsyncBeforeUpload,
    /// Attributes are taken back while they are on their way into the kernel, which leaves them out then.
    TakenBackOnTheWay,
    /// A lock is granted before the kernel has forgotten what others wrote.
    LockBeforeForgetting,
    /// A leak: the clock of the machine.
    LeakWallClock,
    /// A leak: random numbers of the kernel.
    LeakEntropy,
    /// A leak: the order of a hash table.
    LeakHashOrder,
    /// A leak: another thread.
    LeakThread,
    /// A leak: the order of addresses in memory.
    LeakAddressOrder,
    /// A leak: the variables of the process.
    LeakEnvironment,
    /// A leak: a sum of fractions in an order nobody decided.
    LeakFloat,
    /// A canary: a judge whose rule no volume can keep.
    CanaryFalseInvariant,
    /// A canary: a judge objects, and nobody reports it.
    CanarySwallowedVerdict,
    /// A canary: an actor does something for ever, in no time.
    CanaryEndlessLoop,
    /// A canary: an actor answers nobody any more.
    CanaryDeadActor,
}

impl Bug {
    /// Those that worlds with a simulated Redis find.
    pub const WIRE: [Bug; 16] = [
        Bug::LostReplyRepeated,
        Bug::KeyNotChecked,
        Bug::InvalidationDropped,
        Bug::ReconnectStorm,
        Bug::NegativeEntrySurvives,
        Bug::SilenceBelieved,
        Bug::WatchForgotten,
        Bug::AbortTakenForDone,
        Bug::StallBecomesError,
        Bug::ConflictUnconfirmed,
        Bug::LockOutlivesSession,
        Bug::LiveSessionEnded,
        Bug::SharedLockIgnored,
        Bug::FullDirectoryRemoved,
        Bug::TakenBackOnTheWay,
        Bug::LockBeforeForgetting,
    ];

    /// Those of staged blocks.
    pub const STAGING: [Bug; 4] =
        [Bug::TornTailBelieved, Bug::YoungOvertakesOld, Bug::ReplyBeforeGroupSync, Bug::TrimDropsStaged];

    /// Leaks of determinism: runs of one seed differ.
    pub const LEAKS: [Bug; 7] = [
        Bug::LeakWallClock,
        Bug::LeakEntropy,
        Bug::LeakHashOrder,
        Bug::LeakThread,
        Bug::LeakAddressOrder,
        Bug::LeakEnvironment,
        Bug::LeakFloat,
    ];

    /// Canaries: what the court itself must not sleep through.
    pub const CANARIES: [Bug; 4] = [
        Bug::CanaryFalseInvariant,
        Bug::CanarySwallowedVerdict,
        Bug::CanaryEndlessLoop,
        Bug::CanaryDeadActor,
    ];

    /// Those that worlds of one client find.
    pub const ALL: [Bug; 22] = [
        Bug::CommitBeforeUpload,
        Bug::SwallowedUploadError,
        Bug::StaleReadAfterTruncate,
        Bug::RenameInTwoSteps,
        Bug::LostNlink,
        Bug::LengthNotRefreshed,
        Bug::UnflushedReadMissed,
        Bug::RetryOnOldSnapshot,
        Bug::FsyncDoesNothing,
        Bug::UnknownRepeated,
        Bug::LostCloneReference,
        Bug::CopyWithoutReference,
        Bug::QuotaNotCharged,
        Bug::StatisticsStay,
        Bug::TrashPassedBy,
        Bug::TrashExpiresEarly,
        Bug::RemovedWhileOpen,
        Bug::UsageStays,
        Bug::ObjectsBeforeRecords,
        Bug::WriteAfterFencing,
        Bug::LostWriteUntold,
        Bug::FsyncBeforeUpload,
    ];
}

#[cfg(feature = "planted")]
std::thread_local! {
    static ACTIVE: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Switches a bug on, or all off, for the worlds of this thread.
#[cfg(feature = "planted")]
pub fn activate(bug: Option<Bug>) {
    ACTIVE.with(|active| active.set(bug));
}

/// Whether this bug is on.
#[cfg(feature = "planted")]
#[must_use]
pub fn active(bug: Bug) -> bool {
    ACTIVE.with(|active| active.get() == Some(bug))
}

/// Whether this bug is on: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[must_use]
pub const fn active(_: Bug) -> bool {
    false
}

/// A number that no seed decides, while a leak is open.
#[cfg(feature = "planted")]
#[must_use]
pub fn leaked() -> Option<u64> {
    crate::leaks::number()
}

/// A number that no seed decides: there is none in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[must_use]
pub const fn leaked() -> Option<u64> {
    None
}
