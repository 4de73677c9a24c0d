//! Records that a store does not want, whatever it is asked: who counts them, and tells people.

/// What is to be done when a store refuses a record for good.
pub(crate) struct WhenRefused(pub(crate) fn(&Refused<'_>));

inventory::collect!(WhenRefused);

/// A record that a store refuses for good.
pub(crate) struct Refused<'a> {
    /// The store, for people.
    pub(crate) store: &'a str,
    /// What it says.
    pub(crate) why: &'a str,
    /// Where the record is kept instead; none where it is lost.
    pub(crate) kept: Option<&'a str>,
}

/// A record is refused: whoever counts such records hears of it.
pub(crate) fn refuse(refused: &Refused<'_>) {
    for hook in inventory::iter::<WhenRefused>() {
        (hook.0)(refused);
    }
}
