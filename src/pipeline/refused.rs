//! Records that a store refuses: counted each, told once.

use std::sync::atomic::Ordering;

use super::notice::notice;
use super::stats::{self, REFUSED};
use crate::store::{Refused, WhenRefused};

inventory::submit! { WhenRefused(count) }

fn count(refused: &Refused<'_>) {
    let is_first = REFUSED.fetch_add(1, Ordering::Relaxed) == 0;
    if refused.kept.is_none() {
        stats::add(&stats::DROPPED, 1);
    }
    if is_first {
        let Refused { store, why, kept } = refused;
        let rest = match kept {
            Some(place) => format!("it is kept in {place}"),
            None => "it is dropped".to_owned(),
        };
        notice(&format!(
            "{store} refuses a record: {why}; {rest}, and `stats().refused` counts such records"
        ));
    }
}
