//! One sealed universe per run: a fresh thread inside madsim's sandbox, so that entropy, clocks and thread-local
//! hash keys come from the seed, and a thread that is started in there is refused.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

std::thread_local! {
    /// Inside a universe: the first panic of its thread, with its place.
    static FIRST_PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Panics inside universes are remembered instead of printed: they are verdicts, and the first one is the cause.
fn listen() {
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let inside = FIRST_PANIC.with(|first| match &mut *first.borrow_mut() {
                None => false,
                Some(first) => {
                    first.get_or_insert_with(|| info.to_string().replace('\n', " "));
                    true
                }
            });
            if !inside {
                usual(info);
            }
        }));
    });
}

/// Runs `f` in a universe of its own. A panic inside is handed on, with its text.
///
/// # Errors
/// The text of the first panic, when `f` panicked.
pub fn universe<R: Send + 'static>(seed: u64, f: impl FnOnce() -> R + Send + 'static) -> Result<R, String> {
    listen();
    let inside = move || {
        FIRST_PANIC.with(|first| *first.borrow_mut() = Some(None));
        let result = catch_unwind(AssertUnwindSafe(|| {
            let config = madsim::Config::default();
            let runtime = madsim::runtime::Runtime::with_seed_and_config(seed, config);
            runtime.block_on(async move { f() })
        }));
        let first = FIRST_PANIC.with(|first| first.borrow_mut().take().flatten());
        // Also one that was caught, as actors do with their tasks.
        match (result, first) {
            (Ok(result), None) => Ok(result),
            (_, first) => Err(first.unwrap_or_else(|| "a panic without text".into())),
        }
    };
    let thread = std::thread::Builder::new().name(format!("seed {seed}")).stack_size(16 << 20).spawn(inside);
    match thread {
        Ok(handle) => handle.join().unwrap_or_else(|_| Err("the universe itself panicked".into())),
        Err(error) => Err(format!("no thread for the universe of seed {seed}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::universe;
    use std::collections::HashMap;

    fn draws() -> (u64, Vec<u32>, std::time::SystemTime) {
        let map: HashMap<u32, u32> = (0..50).map(|n| (n, n)).collect();
        (madsim::rand::random(), map.keys().copied().collect(), std::time::SystemTime::now())
    }

    #[test]
    fn a_seed_decides_entropy_hash_order_and_clock() {
        let first = universe(7, draws).unwrap();
        assert_eq!(first, universe(7, draws).unwrap());
        assert_ne!(first.0, universe(8, draws).unwrap().0);
    }

    #[test]
    fn a_panic_and_a_thread_are_told() {
        assert!(universe(1, || -> () { panic!("boom") }).unwrap_err().contains("boom"));
        assert!(universe(1, || drop(std::thread::spawn(|| ()).join())).is_err());
    }
}
