//! What a row of the table is made of.

use crate::measure::Report;

/// A row of the targets: who is measured, and what is then compared.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its number in the table of targets.
    pub(crate) number: u8,
    pub(crate) contenders: &'static [Contender],
    pub(crate) lines: &'static [Line],
    /// Rounds at the most, for rows that take long and vary little.
    pub(crate) rounds: usize,
}

/// Rounds where a row sets no limit.
pub(crate) const ROUNDS: usize = 7;

/// Somebody who is measured, in a process of its own.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Measures one or several cases. The working directory is empty, and removed afterwards.
    pub(crate) run: fn(&mut Report),
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) ours: Value,
    /// Who it is compared with, and what of them; none for a bound on the number itself.
    pub(crate) theirs: Option<(&'static str, Value)>,
    pub(crate) unit: Unit,
    pub(crate) bound: Bound,
}

/// A measured number: a contender and one of its cases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value {
    pub(crate) of: (&'static str, &'static str),
    /// What is subtracted.
    pub(crate) minus: Option<(&'static str, &'static str)>,
    /// What it is divided by at the end, such as a number of elements.
    pub(crate) per: f64,
}

impl Value {
    pub(crate) const fn of(contender: &'static str, case: &'static str) -> Self {
        Self { of: (contender, case), minus: None, per: 1.0 }
    }

    pub(crate) const fn minus(self, contender: &'static str, case: &'static str) -> Self {
        Self { minus: Some((contender, case)), ..self }
    }

    pub(crate) const fn per(self, per: f64) -> Self {
        Self { per, ..self }
    }
}

/// What a line's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Mebibytes,
    PerSecond,
    /// Of two times that were measured beside each other.
    Ratio,
    Count,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// Ours is at most this many times theirs.
    AtMost(f64),
    /// Likewise, or ours is at most this much more.
    AtMostOrPlus(f64, f64),
    /// Ours is at least this many times theirs.
    AtLeast(f64),
    /// Ours is at most this.
    Below(f64),
    /// Nothing: the line is there to be read.
    None,
}
