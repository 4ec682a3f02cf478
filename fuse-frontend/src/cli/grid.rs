//! Tables as people and scripts know them: a grid of `+---+` and `|`, headers in the middle, cells at the right.

/// A table; `left` cells of the first column stand at the left.
pub(super) fn grid(header: &[&str], rows: &[Vec<String>], left: bool) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let border: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
    let mut lines = vec![format!("{border}+")];
    let middle = |(text, width): (&&str, &usize)| {
        let room = width - text.chars().count();
        let before = room.div_ceil(2);
        format!("| {}{text}{} ", " ".repeat(before), " ".repeat(room - before))
    };
    lines.push(format!("{}|", header.iter().zip(&widths).map(middle).collect::<String>()));
    lines.push(format!("{border}+"));
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 if left => format!("| {cell:<width$} "),
            _ => format!("| {cell:>width$} "),
        });
        lines.push(format!("{}|", cells.collect::<String>()));
    }
    lines.push(format!("{border}+"));
    lines.join("\n")
}

/// Bytes for people, with the number behind it.
pub(super) fn bytes(n: u64) -> String {
    if n < 1024 {
        return format!("{n} Bytes");
    }
    let (mut value, mut unit) = (n as f64 / 1024.0, 0);
    while value >= 1024.0 && unit < 5 {
        value /= 1024.0;
        unit += 1;
    }
    let letter = ["K", "M", "G", "T", "P", "E"].get(unit).copied().unwrap_or_default();
    format!("{value:.2} {letter}iB ({n} Bytes)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_look_as_they_always_did() {
        let rows = vec![vec!["0".into(), "vol/chunks/0/0/1_0_4194304".into(), "4194304".into()]];
        let expected = "\
+------------+----------------------------+---------+
| chunkIndex |         objectName         |   size  |
+------------+----------------------------+---------+
|          0 | vol/chunks/0/0/1_0_4194304 | 4194304 |
+------------+----------------------------+---------+";
        assert_eq!(grid(&["chunkIndex", "objectName", "size"], &rows, false), expected);
        let left = grid(&["Sid", "Owner"], &[vec!["4".into(), "38".into()]], true);
        assert!(left.contains("| 4   |    38 |"), "{left}");
    }

    #[test]
    fn bytes_are_told_twice() {
        assert_eq!(bytes(2), "2 Bytes");
        assert_eq!(bytes(5_000_000), "4.77 MiB (5000000 Bytes)");
        assert_eq!(bytes(4096), "4.00 KiB (4096 Bytes)");
    }
}
