//! Patterns as KEYS, SCAN and CONFIG GET take them: `*`, `?`, `[a-c]`, `[^x]` and `\`.

/// Whether a text fits a pattern.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            None if t == text.len() => return true,
            None => None,
            Some(b'*') => {
                back = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(_) => text.get(t).and_then(|byte| one(pattern, p, *byte)),
        };
        match (step, back) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((star, from))) if from < text.len() => {
                back = Some((star, from + 1));
                (p, t) = (star, from + 1);
            }
            _ => return false,
        }
    }
}

/// Where the pattern goes on when its part at `at` fits one byte.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern.get(at + 1) == Some(&byte)).then_some(at + 2),
        other => (*other == byte).then_some(at + 1),
    }
}

fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let not = pattern.get(at) == Some(&b'^');
    at += usize::from(not);
    let mut fits = false;
    loop {
        match (pattern.get(at), pattern.get(at + 1), pattern.get(at + 2)) {
            (None, ..) => break,
            (Some(b']'), ..) => {
                at += 1;
                break;
            }
            (Some(b'\\'), Some(escaped), _) => {
                fits |= *escaped == byte;
                at += 2;
            }
            (Some(low), Some(b'-'), Some(high)) => {
                fits |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            (Some(single), ..) => {
                fits |= *single == byte;
                at += 1;
            }
        }
    }
    (fits != not).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_fit_what_they_should() {
        for (pattern, text) in [
            ("*", ""),
            ("i*", "i1"),
            ("c*_*", "c12_3"),
            ("h?llo", "hallo"),
            ("h[a-c]*", "hbx"),
            ("[^i]*", "d1"),
            ("a\\*", "a*"),
        ] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in
            [("i*", "d1"), ("", "a"), ("?", ""), ("h[^a]*", "ha"), ("a\\*", "ab"), ("*x", "xy")]
        {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }
}
