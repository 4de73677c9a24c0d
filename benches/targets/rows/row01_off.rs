//! Row 1: nothing is recorded.

use crate::measure::{Cases, Report};
use crate::peers::{block_on, ours, plain, tracing};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const LEAF: &str = "leaf";
const NESTED: &str = "nested";
const ASYNC: &str = "async";
const YIELD: &str = "async with a yield";

/// What tracing's documentation calls the cost of a disabled span.
const AGAINST: &str = "tracing::instrument, no subscriber";

pub(crate) static ROW: Row = Row {
    number: 1,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "plain", run: plain },
        Contender { name: "tracing", run: tracing },
        Contender { name: "ours", run: ours },
    ],
    lines: &[
        line("off: an empty function", LEAF, Bound::AtMostOrPlus(1.5, 3.0)),
        line("off: three nested", NESTED, Bound::AtMostOrPlus(1.5, 3.0)),
        line("off: an empty async function", ASYNC, Bound::AtMostOrPlus(1.5, 3.0)),
        line("off: async with a yield", YIELD, Bound::AtMostOrPlus(1.5, 3.0)),
        Line {
            what: "off: an empty function",
            ours: Value::of("ours", LEAF),
            theirs: Some(("no attribute", Value::of("plain", LEAF))),
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
    ],
};

const fn line(what: &'static str, case: &'static str, bound: Bound) -> Line {
    Line {
        what,
        ours: Value::of("ours", case),
        theirs: Some((AGAINST, Value::of("tracing", case))),
        unit: Unit::Nanoseconds,
        bound,
    }
}

/// Calls a batch: some milliseconds.
const CALLS: u32 = 500_000;

macro_rules! contender {
    ($name:ident) => {
        fn $name(report: &mut Report) {
            Cases::pure()
                .case(LEAF, CALLS, $name::leaf)
                .case(NESTED, CALLS, $name::nested)
                .case(ASYNC, CALLS, || block_on!($name::leaf_async()))
                .case(YIELD, CALLS, || block_on!($name::leaf_yielding()))
                .measure(report);
        }
    };
}

contender!(plain);
contender!(tracing);
contender!(ours);
