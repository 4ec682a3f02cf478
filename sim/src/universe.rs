//! One sealed universe per run: a fresh thread inside madsim's sandbox, so that entropy, clocks and thread-local
//! hash keys come from the seed, and a thread that is started in there is refused.

/// Runs `f` in a universe of its own. A panic inside is handed on, with its text.
///
/// # Errors
/// The text of the panic, when `f` panicked.
pub fn universe<R: Send + 'static>(seed: u64, f: impl FnOnce() -> R + Send + 'static) -> Result<R, String> {
    let inside = move || {
        let config = madsim::Config::default();
        let runtime = madsim::runtime::Runtime::with_seed_and_config(seed, config);
        runtime.block_on(async move { f() })
    };
    let thread = std::thread::Builder::new().name(format!("seed {seed}")).stack_size(16 << 20).spawn(inside);
    match thread {
        Ok(handle) => handle.join().map_err(|payload| panic_text(payload.as_ref())),
        Err(error) => Err(format!("no thread for the universe of seed {seed}: {error}")),
    }
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".into())
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
        assert_eq!(universe(1, || -> () { panic!("boom") }), Err("boom".into()));
        assert!(universe(1, || { let _ = std::thread::spawn(|| ()).join(); }).is_err());
    }
}
