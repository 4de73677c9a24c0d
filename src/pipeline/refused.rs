//! Counts the records that a store refuses, and prints a notice for the first one.

use std::sync::Once;

use super::stats::{self, DROPPED, REFUSED};
use runlore_core::notice::notice;
use runlore_core::store::{Refused, WhenRefused};

inventory::submit! { WhenRefused(count) }

fn count(refused: &Refused) {
    static TOLD: Once = Once::new();
    let Refused { store, why, kept, .. } = refused;
    let (counter, name) = match kept {
        Some(_) => (&REFUSED, "refused"),
        None => (&DROPPED, "dropped"),
    };
    stats::add(counter, 1);
    TOLD.call_once(|| {
        let rest = match kept {
            Some(place) => format!("it is kept in {place}"),
            None => "it is dropped".to_owned(),
        };
        notice(&format!(
            "{store} refuses a record: {why}; {rest}, and `stats().{name}` counts such records"
        ));
    });
}
