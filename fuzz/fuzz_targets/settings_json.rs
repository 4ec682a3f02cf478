//! Any bytes as the settings record, and any bytes between the members that must be there: an error, or settings
//! that keep every member when they are written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_types::volume::Settings;

fn judge(bytes: &[u8]) {
    if let Ok(settings) = Settings::from_json(bytes) {
        let _ = settings.check();
        assert_eq!(Settings::from_json(&settings.to_json()).as_ref(), Ok(&settings));
    }
}

fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    judge(&[br#"{"Name":"vol","UUID":"u","BlockSize":4096,"#, bytes, b"}"].concat());
});
