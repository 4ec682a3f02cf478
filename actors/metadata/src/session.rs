//! Sessions: each mount that may change the volume has one, with a time at which it counts as dead, and a list of
//! files that were removed while it had them open. Knows no connection: who beats the heart is the mount.

use crate::change::{ChangeSet, Write};
use crate::engine::{CommitError, Engine};
use crate::key::{Counter, Key, Scan};
use crate::op::{Op, Outcome};
use crate::record::Record;
use crate::transact::MetaCore;
use std::time::Duration;
use zest_types::{Caller, Errno, limits};
use zest_world::World;
use zest_world::planted::{self, Bug};

/// Begins a session; its number is the answer. `info` is its JSON record.
pub async fn begin(
    engine: &dyn Engine,
    world: &World,
    info: &[u8],
    heartbeat: Duration,
) -> Result<u64, Errno> {
    let key = Key::Counter(Counter::NextSession);
    let take = ChangeSet { expect: Vec::new(), write: vec![Write::Add(key.clone(), 1)] };
    let mut number = None;
    for _ in 0..limits::TXN_RETRIES {
        match engine.commit(&take).await {
            Ok(applied) => {
                number = applied.records.iter().find_map(|(k, record)| match (k == &key, record) {
                    (true, Some(Record::Count(n))) => u64::try_from(*n).ok(),
                    _ => None,
                });
                break;
            }
            Err(CommitError::Engine(error)) => {
                world.trace.complain(&error.to_string());
                return Err(Errno::EIO);
            }
            Err(CommitError::Conflict(_) | CommitError::Unknown(_)) => {}
        }
    }
    let number = number.ok_or(Errno::EIO)?;
    put(engine, world, number, Some(info), heartbeat).await?;
    Ok(number)
}

/// Goes on with the session of an earlier process of the same mount; what it has locked and open stays. What others
/// took of it meanwhile is said.
pub async fn go_on(
    engine: &dyn Engine,
    world: &World,
    session: u64,
    info: &[u8],
    heartbeat: Duration,
) -> Result<(), Errno> {
    let found = engine.read(&[Key::SessionExpiry(session)]).await.map_err(|error| {
        world.trace.complain(&error.to_string());
        Errno::EIO
    })?;
    put(engine, world, session, Some(info), heartbeat).await?;
    if matches!(found.first(), Some(None)) {
        world.tell("session", "ended by others", session, 0);
        world.trace.complain(ENDED_BY_OTHERS);
    }
    Ok(())
}

const ENDED_BY_OTHERS: &str = "this mount was not heard of for so long that others ended its session, which begins \
     anew: locks it held are lost, and so are files that were open here and removed";

/// The session lives on for a while. One that others ended meanwhile, since this mount had not been heard of for too
/// long, begins anew under its number; what that cost is said.
pub async fn beat(core: &MetaCore, session: u64) -> Result<(), Errno> {
    let key = Key::SessionExpiry(session);
    let found = core.engine.read(&[key]).await.map_err(|e| core.errno(&e))?;
    let was_ended = matches!(found.first(), Some(None));
    let info = core.session_info.get().filter(|_| was_ended).map(Vec::as_slice);
    put(&*core.engine, &core.world, session, info, core.volume().heartbeat).await?;
    if was_ended {
        core.world.tell("session", "ended by others", session, 0);
        core.world.trace.complain(ENDED_BY_OTHERS);
    }
    Ok(())
}

/// The session is over: its locks go, what it had open and removed goes for good, and its records too.
pub async fn end(core: &MetaCore, session: u64) -> Result<(), Errno> {
    let locks = [Scan::Flocks { session }, Scan::RangeLocks { session }];
    for scan in locks.into_iter().filter(|_| !planted::active(Bug::LockOutlivesSession)) {
        for (key, record) in core.engine.scan(&scan).await.map_err(|e| core.errno(&e))? {
            if let (Key::Flocks(ino) | Key::RangeLocks(ino), true) = (key, has_lock(&record, session)) {
                core.change(Caller::SYSTEM, &Op::DropLocks { session, ino }).await?;
            }
        }
    }
    let scan = Scan::Sustained { limit: usize::MAX };
    let held = core.engine.scan(&scan).await.map_err(|e| core.errno(&e))?;
    for (key, _) in held {
        if let Key::Sustained { session: owner, ino } = key
            && owner == session
        {
            core.change(Caller::SYSTEM, &Op::DropSustained { session, ino }).await?;
        }
    }
    let write = vec![Write::Delete(Key::SessionExpiry(session)), Write::Delete(Key::SessionInfo(session))];
    commit(&*core.engine, &ChangeSet { expect: Vec::new(), write }).await
}

fn has_lock(record: &Record, session: u64) -> bool {
    match record {
        Record::Flocks(list) => list.iter().any(|entry| entry.owner.session == session),
        Record::RangeLocks(list) => list.iter().any(|(owner, _)| owner.session == session),
        _ => false,
    }
}

/// Ends all sessions but one's own: only where nobody else can be using the volume.
pub async fn end_dead(core: &MetaCore, own: u64) -> Result<(), Errno> {
    end_until(core, own, i64::MAX, usize::MAX).await
}

/// Ends the sessions that were silent for too long, if it is this client's turn to.
pub async fn end_silent(core: &MetaCore, own: u64) -> Result<(), Errno> {
    // Nine tenths of a heartbeat, whoever looks.
    let interval = i64::try_from(core.volume().heartbeat.as_secs() * 9 / 10).unwrap_or(i64::MAX);
    let gate = Op::Gate { job: Counter::LastCleanupSessions, interval };
    match core.change(Caller::SYSTEM, &gate).await? {
        Outcome::Done => {
            let silent =
                if planted::active(Bug::LiveSessionEnded) { i64::MAX } else { core.world.clock.now().sec };
            end_until(core, own, silent, limits::DEAD_SESSIONS).await
        }
        _ => Ok(()),
    }
}

/// Ends sessions that expired until a time, at most so many.
async fn end_until(core: &MetaCore, own: u64, until: i64, most: usize) -> Result<(), Errno> {
    let scan = Scan::Sessions { limit: usize::MAX };
    let all = core.engine.scan(&scan).await.map_err(|e| core.errno(&e))?;
    let dead = all.into_iter().filter_map(|(key, record)| match (key, record) {
        (Key::SessionExpiry(session), Record::Stamp(at)) if session != own && at <= until => Some(session),
        _ => None,
    });
    for session in dead.take(most) {
        end(core, session).await?;
    }
    Ok(())
}

async fn put(
    engine: &dyn Engine,
    world: &World,
    session: u64,
    info: Option<&[u8]>,
    heartbeat: Duration,
) -> Result<(), Errno> {
    let seconds = i64::try_from(heartbeat.as_secs().max(1)).unwrap_or(i64::MAX);
    let silent = seconds.saturating_mul(i64::from(limits::SESSION_BEATS));
    let expiry = Record::Stamp(world.clock.now().sec.saturating_add(silent));
    let mut write = vec![Write::Put(Key::SessionExpiry(session), expiry)];
    write.extend(info.map(|info| Write::Put(Key::SessionInfo(session), Record::Bytes(info.to_vec()))));
    commit(engine, &ChangeSet { expect: Vec::new(), write }).await
}

/// Commits writes that may be made twice without harm.
async fn commit(engine: &dyn Engine, changes: &ChangeSet) -> Result<(), Errno> {
    for _ in 0..limits::TXN_RETRIES {
        match engine.commit(changes).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Engine(_)) => return Err(Errno::EIO),
            Err(CommitError::Conflict(_) | CommitError::Unknown(_)) => {}
        }
    }
    Err(Errno::EIO)
}
