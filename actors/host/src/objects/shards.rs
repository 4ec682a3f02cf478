//! Volumes spread over several buckets: the name of each bucket, and which of them holds a key. Source: volume format,
//! sharding.

use std::fmt::Write as _;

/// Bucket number `shard` of a setting such as `http://host/jfs-%d`. The error says what is wrong with the setting.
pub(super) fn bucket(template: &str, shard: u32) -> Result<String, String> {
    let (mut out, mut rest, mut numbers) = (String::new(), template, 0);
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        let (width, behind) = behind.split_at(behind.bytes().take_while(u8::is_ascii_digit).count());
        let Some(behind) = behind.strip_prefix('d') else {
            return Err(format!("{template:?}: write %d, and % as %%"));
        };
        let zeros = width.starts_with('0');
        let width = width.trim_start_matches('0');
        let width: usize =
            if width.is_empty() { 0 } else { width.parse().map_err(|_| "a number is too wide")? };
        if width > 20 {
            return Err("a number is too wide".into());
        }
        // Writing into a string does not fail.
        let _ = if zeros { write!(out, "{shard:0width$}") } else { write!(out, "{shard:width$}") };
        numbers += 1;
        rest = behind;
    }
    out.push_str(rest);
    match numbers {
        1 => Ok(out),
        _ => Err("a volume of several shards needs one %d in it, for the number of the bucket".into()),
    }
}

/// Which of `shards` buckets holds a key, the volume's name included: FNV-1a of its bytes.
pub(super) fn shard_of(key: &str, shards: usize) -> usize {
    let hash =
        key.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    (hash as usize).checked_rem(shards).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_where_the_format_says() {
        let vectors = [
            ("jfstest/chunks/0/0/1_0_4194304", [0, 2, 8]),
            ("jfstest/chunks/0/0/1_1_4194304", [1, 1, 9]),
            ("jfstest/chunks/0/0/1_2_2097152", [1, 1, 1]),
            ("jfstest/juicefs_uuid", [0, 0, 2]),
        ];
        for (key, places) in vectors {
            assert_eq!([2, 4, 10].map(|shards| shard_of(key, shards)), places, "{key}");
        }
        assert_eq!(shard_of("any", 1), 0);
    }

    #[test]
    fn buckets_are_numbered() {
        assert_eq!(bucket("http://host/jfs-%d", 7).unwrap(), "http://host/jfs-7");
        assert_eq!(bucket("/x%%y/%03d/", 7).unwrap(), "/x%y/007/");
        assert_eq!(bucket("/%3d/", 7).unwrap(), "/  7/");
        for bad in ["http://host/jfs", "/%s/", "/%d/%d/", "/%", "/%99d/", "/%%d/", "/%é"] {
            assert!(bucket(bad, 0).is_err(), "{bad}");
        }
    }
}
