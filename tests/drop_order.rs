//! An annotated function drops its arguments as it would without the attribute.

use std::cell::RefCell;

use runlore::telemetry_task;

use crate::support::{child, expect_success, is_child, record, the};

thread_local! {
    static DROPPED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Says its name when it is dropped.
#[derive(Debug)]
struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push(self.0));
    }
}

impl Noisy {
    fn look(&self) -> usize {
        self.0.len()
    }

    /// A guard that is dropped where temporaries are.
    fn borrowed(&self) -> (Noisy, usize) {
        (Noisy("temporary"), self.look())
    }
}

#[derive(Debug)]
struct Pair {
    #[allow(dead_code)]
    x: Noisy,
    y: Noisy,
}

fn pair() -> Pair {
    Pair { x: Noisy("x"), y: Noisy("y") }
}

fn order(work: impl FnOnce()) -> Vec<&'static str> {
    DROPPED.take();
    work();
    DROPPED.take()
}

/// Waits once, so that a future is left and entered again.
async fn pause() {
    tokio::task::yield_now().await;
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// What is done without the attribute, and the same with it.
struct Twins {
    name: &'static str,
    plain: fn(),
    annotated: fn(),
}

macro_rules! twins {
    ($($name:ident: [$($args:tt)*] $call:expr, { $($item:tt)* })*) => {
        const FUNCTIONS: &[Twins] = &[$(Twins {
            name: stringify!($name),
            plain: || {
                $($item)*
                _ = $call;
            },
            annotated: || {
                #[telemetry_task($($args)*)]
                $($item)*
                _ = $call;
            },
        }),*];
    };
}

twins! {
    not_used: [] f(Noisy("a"), Noisy("b")), {
        fn f(_a: Noisy, _b: Noisy) {}
    }
    used_in_another_order: [] f(Noisy("a"), Noisy("b"), Noisy("c")), {
        fn f(a: Noisy, b: Noisy, c: Noisy) -> usize {
            let _local = Noisy("local");
            b.look() + a.look() + c.look()
        }
    }
    moved_in_the_body: [] f(Noisy("a"), Noisy("b"), Noisy("c")), {
        fn f(a: Noisy, b: Noisy, c: Noisy) -> usize {
            let inner = b;
            a.look() + inner.look() + c.look()
        }
    }
    dropped_in_the_body: [] f(Noisy("a"), Noisy("b"), Noisy("c")), {
        fn f(a: Noisy, b: Noisy, c: Noisy) -> usize {
            drop(a);
            c.look() + b.look()
        }
    }
    moved_on_some_ways: [] (f(Noisy("a"), Noisy("b"), true), f(Noisy("c"), Noisy("d"), false)), {
        fn f(a: Noisy, b: Noisy, early: bool) -> usize {
            if early {
                drop(a);
                return 0;
            }
            b.look()
        }
    }
    changed: [] f(Noisy("a"), Noisy("b"), Noisy("c")), {
        fn f(mut a: Noisy, b: Noisy, mut c: Noisy) {
            c.0 = "changed";
            _ = (a.look(), b.look(), c.look());
            a = Noisy("new");
            _ = a.look();
        }
    }
    destructured: [] f((Noisy("a"), Noisy("b")), Noisy("c"), [Noisy("d"), Noisy("e")]), {
        fn f((a, b): (Noisy, Noisy), c: Noisy, [d, e]: [Noisy; 2]) -> usize {
            d.look() + b.look() + a.look() + c.look() + e.look()
        }
    }
    a_part_of_an_argument: [] f(pair(), Noisy("b")), {
        fn f(a: Pair, b: Noisy) -> usize {
            let y = a.y;
            y.look() + b.look()
        }
    }
    a_part_of_an_argument_looked_at: [] f(pair(), Noisy("b")), {
        fn f(a: Pair, b: Noisy) -> usize {
            a.y.look() + b.look()
        }
    }
    temporaries_at_the_end: [] f(Noisy("a"), Noisy("b")), {
        fn f(a: Noisy, b: Noisy) -> usize {
            let _local = Noisy("local");
            b.borrowed().1 + a.look()
        }
    }
    skipped: [skip(b)] f(Noisy("a"), Noisy("b"), Noisy("c")), {
        fn f(a: Noisy, b: Noisy, c: Noisy) -> usize {
            b.look() + a.look() + c.look()
        }
    }
    all_skipped: [skip_all] f(Noisy("a"), Noisy("b"), Noisy("c")), {
        fn f(a: Noisy, _b: Noisy, c: Noisy) -> usize {
            a.look() + c.look()
        }
    }
    generic: [] f(Noisy("a"), Some(Noisy("b")), &Noisy("r"), |x: &Noisy| x.look()), {
        fn f<T: std::fmt::Debug>(
            a: impl std::fmt::Debug,
            b: Option<T>,
            c: &Noisy,
            work: impl Fn(&Noisy) -> usize,
        ) -> usize {
            _ = format!("{b:?} {a:?}");
            work(c)
        }
    }
    failing: [] f(Noisy("a"), Noisy("b")).is_err(), {
        fn f(a: Noisy, b: Noisy) -> Result<usize, std::num::ParseIntError> {
            let number: usize = "x".parse()?;
            Ok(a.look() + b.look() + number)
        }
    }
    panicking: [] std::panic::catch_unwind(|| f(Noisy("a"), Noisy("b"))).is_err(), {
        fn f(a: Noisy, b: Noisy) -> usize {
            let _local = Noisy("local");
            assert!(b.look() + a.look() == 0);
            0
        }
    }
    items_first: [] f(Noisy("a"), Noisy("b")), {
        fn f(a: Noisy, b: Noisy) -> usize {
            const ONE: usize = 1;
            b.look() + a.look() + ONE
        }
    }
    asynchronous: [] block_on(f(Noisy("a"), Noisy("b"), Noisy("c"))), {
        async fn f(a: Noisy, _b: Noisy, mut c: Noisy) -> usize {
            let _local = Noisy("local");
            pause().await;
            c.0 = "changed";
            c.look() + a.look()
        }
    }
    asynchronous_with_patterns: [] block_on(f((Noisy("a"), Noisy("b")), pair())), {
        async fn f((a, b): (Noisy, Noisy), p: Pair) -> usize {
            pause().await;
            let y = p.y;
            b.look() + a.look() + y.look()
        }
    }
    asynchronous_at_the_end: [] block_on(f(Noisy("a"), Noisy("b"))), {
        async fn f(a: Noisy, b: Noisy) -> usize {
            pause().await;
            b.borrowed().1 + a.look()
        }
    }
    given_up_by_its_caller: [] block_on(async {
        let mut future = Box::pin(f(Noisy("a"), Noisy("b")));
        let waker = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(waker).is_pending());
    }), {
        async fn f(a: Noisy, b: Noisy) -> usize {
            let _local = Noisy("local");
            std::future::pending::<()>().await;
            b.look() + a.look()
        }
    }
    a_future_at_the_end: [] block_on(f(Noisy("a"), Noisy("b"), Noisy("c"))), {
        fn f(a: Noisy, b: Noisy, c: Noisy) -> impl Future<Output = usize> {
            let first = c.look();
            async move {
                pause().await;
                b.look() + a.look() + first
            }
        }
    }
    a_future_made_elsewhere: [future] block_on(f(Noisy("a"), Noisy("b"))), {
        fn f(a: Noisy, b: Noisy) -> impl Future<Output = usize> {
            std::future::ready(b.look() + a.look())
        }
    }
}

/// Methods are those of two types.
macro_rules! method_twins {
    ($($name:ident: |$this:ident| $call:expr, { $($item:tt)* })*) => {
        const METHODS: &[Twins] = &[$(Twins {
            name: stringify!($name),
            plain: || {
                impl Plain {
                    $($item)*
                }
                struct Plain(Noisy, Noisy);
                let $this = Plain(Noisy("0"), Noisy("1"));
                _ = (&$this.0, &$this.1);
                _ = $call;
            },
            annotated: || {
                impl Annotated {
                    #[telemetry_task]
                    $($item)*
                }
                struct Annotated(Noisy, Noisy);
                let $this = Annotated(Noisy("0"), Noisy("1"));
                _ = (&$this.0, &$this.1);
                _ = $call;
            },
        }),*];
    };
}

method_twins! {
    by_value: |this| this.f(Noisy("a"), Noisy("b")), {
        fn f(self, a: Noisy, b: Noisy) -> usize {
            self.1.look() + b.look() + a.look()
        }
    }
    by_value_and_changed: |this| this.f(Noisy("a")), {
        fn f(mut self, a: Noisy) -> usize {
            self.1 = Noisy("new");
            a.look() + self.1.look()
        }
    }
    taken_apart: |this| this.f(Noisy("a")), {
        fn f(self, a: Noisy) -> usize {
            let one = self.1;
            one.look() + a.look()
        }
    }
    boxed: |this| Box::new(this).f(Noisy("a")), {
        fn f(self: Box<Self>, a: Noisy) -> usize {
            a.look()
        }
    }
    borrowed: |this| this.f(Noisy("a"), Noisy("b")), {
        fn f(&self, a: Noisy, b: Noisy) -> usize {
            self.0.look() + b.look() + a.look()
        }
    }
    asynchronous_method: |this| block_on(this.f(Noisy("a"), Noisy("b"))), {
        async fn f(self, a: Noisy, b: Noisy) -> usize {
            pause().await;
            self.1.look() + b.look() + a.look()
        }
    }
}

fn compare(how: &str) {
    for Twins { name, plain, annotated } in FUNCTIONS.iter().chain(METHODS) {
        let plain = order(plain);
        assert!(!plain.is_empty());
        assert_eq!(order(annotated), plain, "{name}, {how}");
    }
}

#[test]
fn arguments_drop_as_without_the_attribute() {
    let store = record(|| compare("recorded"));
    assert!(store.tasks().len() >= FUNCTIONS.len() + METHODS.len());
}

const NOT_RECORDED: &str = "drop_order::arguments_drop_so_where_nothing_is_recorded_too";

#[test]
fn arguments_drop_so_where_nothing_is_recorded_too() {
    // Apart from other tests, whose workflows would record this thread as well.
    if is_child(NOT_RECORDED) {
        return compare("not recorded");
    }
    expect_success(&child(NOT_RECORDED).output().unwrap());
}

#[test]
fn methods_of_async_trait_drop_alike() {
    #[async_trait::async_trait]
    trait Work {
        async fn work(self, a: Noisy, _b: Noisy, (c, d): (Noisy, Noisy)) -> usize;
    }
    struct Plain(Noisy);
    struct Annotated(Noisy);
    #[async_trait::async_trait]
    impl Work for Plain {
        async fn work(self, a: Noisy, _b: Noisy, (c, d): (Noisy, Noisy)) -> usize {
            pause().await;
            d.look() + a.look() + c.look() + self.0.look()
        }
    }
    #[async_trait::async_trait]
    impl Work for Annotated {
        #[telemetry_task]
        async fn work(self, a: Noisy, _b: Noisy, (c, d): (Noisy, Noisy)) -> usize {
            pause().await;
            d.look() + a.look() + c.look() + self.0.look()
        }
    }
    let call = |work: &dyn Fn(Noisy, Noisy, (Noisy, Noisy))| {
        order(|| work(Noisy("a"), Noisy("b"), (Noisy("c"), Noisy("d"))))
    };
    let plain = call(&|a, b, c| _ = block_on(Plain(Noisy("self")).work(a, b, c)));
    let annotated = || call(&|a, b, c| _ = block_on(Annotated(Noisy("self")).work(a, b, c)));
    record(|| assert_eq!(annotated(), plain));
}

#[test]
fn what_the_outcome_needs_stays_outside() {
    #[telemetry_task(generated(length = text.len(), shown = format!("{more:?}")), fail_if = *ret > limit.0)]
    fn f(text: String, more: Vec<u8>, limit: (usize, Noisy), b: Noisy) -> usize {
        b.look()
    }
    let store = record(|| _ = f("four".to_owned(), vec![1], (9, Noisy("limit")), Noisy("b")));
    let generated = the(&store, "f").generated.unwrap();
    assert_eq!((&generated["length"], &generated["shown"]), (&4.into(), &"[1]".into()));
}

#[test]
fn what_a_pattern_does_not_bind_goes_last() {
    #[telemetry_task]
    fn f(a: Noisy, _: Noisy, (c, _): (Noisy, Noisy)) -> usize {
        a.look() + c.look()
    }
    let call = || {
        f(Noisy("a"), Noisy("not named"), (Noisy("c"), Noisy("left out")));
    };
    assert_eq!(order(call), ["c", "a", "left out", "not named"]);
}
