//! Draws tasks as bars: the longest and the failed ones in rows, all others as a density.

use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::picture::{Bar, State};

/// Maximum number of tasks with bars.
const BARS: usize = 1_500;
/// Maximum number of failed tasks among these.
const FAILED: usize = 300;
/// Maximum number of rows of bars.
const ROWS: usize = 48;
/// The number of intervals of the density.
const PARTS: usize = 400;

/// The fields of a task that are kept for drawing.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: Box<str>,
    pub(crate) parent: Option<Box<str>>,
    pub(crate) activity: u32,
    /// In Unix nanoseconds.
    pub(crate) start_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) state: State,
}

/// Returns the earliest start and the latest end.
pub(super) fn window(rows: &[Row]) -> Option<(u64, u64)> {
    let start = rows.iter().map(|row| row.start_ns).min()?;
    let end = rows.iter().map(|row| row.start_ns.saturating_add(row.length_ns)).max()?;
    Some((start, end))
}

/// Returns the bars, and the density of the remaining tasks.
pub(crate) fn bars(
    rows: &[Row],
    names: &[String],
    start_ns: u64,
    length_ns: u64,
) -> (Vec<Bar>, Vec<u32>) {
    let mut chosen = chosen(rows);
    // Parents come before their children.
    chosen.sort_by_key(|&at| (rows[at].start_ns, u64::MAX - rows[at].length_ns));
    let mut free_from: Vec<u64> = Vec::new();
    let mut row_of: HashMap<&str, usize> = HashMap::new();
    let mut bars = Vec::new();
    let mut drawn = HashSet::new();
    for at in chosen {
        let row = &rows[at];
        let above = row.parent.as_deref().and_then(|parent| row_of.get(parent));
        let first = above.map_or(0, |above| above + 1);
        let free = (first..free_from.len()).find(|&line| free_from[line] <= row.start_ns);
        let line = free.unwrap_or_else(|| free_from.len().max(first));
        if line >= ROWS {
            continue;
        }
        free_from.resize(free_from.len().max(line + 1), 0);
        free_from[line] = row.start_ns.saturating_add(row.length_ns.max(1));
        row_of.insert(&row.id, line);
        drawn.insert(at);
        bars.push(Bar {
            name: names[row.activity as usize].clone(),
            start_ns: row.start_ns.saturating_sub(start_ns),
            length_ns: row.length_ns,
            row: line as u32,
            state: row.state,
        });
    }
    let others = rows.iter().enumerate().filter(|(at, _)| !drawn.contains(at)).map(|(_, row)| row);
    (bars, density(others, start_ns, length_ns))
}

/// Selects the longest tasks, and the longest failed tasks.
fn chosen(rows: &[Row]) -> Vec<usize> {
    let longest = |most: usize, of: &dyn Fn(&Row) -> bool| {
        let mut heap = BinaryHeap::new();
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| of(row)) {
            // Of equally long tasks, keep a pseudorandom selection. The last ones would all be at
            // the end of the run.
            let any = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            heap.push(std::cmp::Reverse((row.length_ns, any, at)));
            if heap.len() > most {
                heap.pop();
            }
        }
        heap.into_iter().map(|std::cmp::Reverse((_, _, at))| at)
    };
    let failed = longest(FAILED, &|row| row.state == State::Failed);
    let mut chosen: HashSet<usize> = failed.collect();
    chosen.extend(longest(BARS - chosen.len(), &|row| row.state != State::Failed));
    chosen.into_iter().collect()
}

/// Returns how many of the tasks ran at the same time on average, rounded up, in `PARTS` equal
/// intervals. Empty if there are no tasks.
fn density<'a>(rows: impl Iterator<Item = &'a Row>, start_ns: u64, length_ns: u64) -> Vec<u32> {
    let part = |at_ns: u64| {
        let share = u128::from(at_ns.saturating_sub(start_ns)) * PARTS as u128;
        ((share / u128::from(length_ns.max(1))) as usize).min(PARTS - 1)
    };
    let mut parts: Vec<u64> = vec![0; PARTS];
    let mut any = false;
    let width = (length_ns / PARTS as u64).max(1);
    for row in rows {
        any = true;
        // Include tasks that took no measurable time.
        let end_ns = row.start_ns.saturating_add(row.length_ns.max(1));
        let (first, last) = (part(row.start_ns), part(end_ns - 1));
        for (at, sum) in parts.iter_mut().enumerate().take(last + 1).skip(first) {
            // The time that the task ran within the interval.
            let (from, to) = (start_ns + at as u64 * width, start_ns + (at as u64 + 1) * width);
            let ran = to.min(end_ns).saturating_sub(from.max(row.start_ns));
            *sum = sum.saturating_add(ran);
        }
    }
    match any {
        true => parts.into_iter().map(|sum| sum.div_ceil(width) as u32).collect(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, parent: Option<&str>, start_ns: u64, length_ns: u64) -> Row {
        let state = State::Finished;
        Row {
            id: id.into(),
            parent: parent.map(Into::into),
            activity: 0,
            start_ns,
            length_ns,
            state,
        }
    }

    #[test]
    fn what_is_called_is_below_its_caller() {
        let rows = [
            row("b", Some("a"), 10, 20),
            row("c", Some("a"), 15, 20),
            row("d", Some("a"), 40, 20),
            row("a", None, 0, 100),
        ];
        let (bars, density) = bars(&rows, &["x".to_owned()], 0, 100);
        let lines: Vec<(u64, u32)> = bars.iter().map(|bar| (bar.start_ns, bar.row)).collect();
        assert_eq!(lines, [(0, 0), (10, 1), (15, 2), (40, 1)]);
        assert!(density.is_empty());
    }

    #[test]
    fn what_has_no_bar_is_counted() {
        let rows: Vec<Row> =
            (0..5_000).map(|at| row(&at.to_string(), None, (at / 5) * 1_000, 1_000)).collect();
        let (bars, density) = bars(&rows, &["x".to_owned()], 0, 1_000_000);
        assert_eq!(bars.len(), BARS);
        assert_eq!(density.len(), PARTS);
        assert_eq!(
            density.iter().copied().max(),
            Some(4),
            "five at a time, of which some have bars"
        );
        let in_part = |part: u64| bars.iter().filter(|bar| bar.start_ns / 100_000 == part).count();
        for part in 0..10 {
            assert!((100..200).contains(&in_part(part)), "{} in part {part}", in_part(part));
        }
    }
}
