#![allow(clippy::multiple_bound_locations)]

use runlore::telemetry_task;
use std::borrow::Cow;
use std::cell::{Ref, RefCell};
use std::fmt::Debug;

#[telemetry_task]
fn identity<T>(value: T) -> T {
    value
}

#[telemetry_task]
fn larger<T: PartialOrd + Copy, const N: usize>(values: [T; N]) -> Option<T>
where
    T: Debug,
{
    let mut values = values.into_iter();
    let first = values.next()?;
    Some(values.fold(first, |a, b| if a > b { a } else { b }))
}

#[telemetry_task]
fn longest<'a, 'b: 'a>(left: &'a str, right: &'b str) -> &'a str {
    if left.len() > right.len() { left } else { right }
}

#[telemetry_task]
fn trimmed(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text.trim())
}

#[telemetry_task]
fn look(cell: &RefCell<Vec<i32>>) -> Ref<'_, [i32]> {
    Ref::map(cell.borrow(), Vec::as_slice)
}

#[telemetry_task]
fn dynamic<'a>(text: &'a str) -> Box<dyn Fn() -> usize + 'a> {
    Box::new(move || text.len())
}

#[telemetry_task]
fn higher_ranked(apply: &dyn for<'a> Fn(&'a str) -> &'a str) -> String {
    apply("  x ").to_owned()
}

struct Grid<T, const W: usize, const H: usize>([[T; W]; H]);

impl<T: Default + Copy, const W: usize, const H: usize> Grid<T, W, H> {
    #[telemetry_task]
    fn new() -> Self {
        Self([[T::default(); W]; H])
    }

    #[telemetry_task]
    fn row<'a>(&'a mut self, y: usize) -> &'a mut [T; W] {
        &mut self.0[y]
    }

    #[telemetry_task]
    async fn cell(&self, x: usize, y: usize) -> &T {
        &self.0[y][x]
    }
}

#[tokio::test]
async fn runs() {
    struct Opaque;
    identity(Opaque);
    assert_eq!(identity("x"), "x");
    assert_eq!(larger([1, 5, 3]), Some(5));
    assert_eq!(larger::<f64, 0>([]), None);
    assert_eq!(longest("ab", "c"), "ab");
    assert_eq!(trimmed(" x "), "x");
    assert_eq!(look(&RefCell::new(vec![1, 2]))[1], 2);
    assert_eq!(dynamic("four")(), 4);
    assert_eq!(higher_ranked(&str::trim), "x");
    let mut grid = Grid::<u8, 2, 3>::new();
    grid.row(2)[1] = 9;
    assert_eq!(*grid.cell(1, 2).await, 9);
}
