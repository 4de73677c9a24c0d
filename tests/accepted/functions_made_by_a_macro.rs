use runlore::telemetry_task;

macro_rules! getter {
    ($name:ident, $argument:ident : $ty:ty => $body:expr) => {
        #[telemetry_task(generated(length = ret.to_string().len()))]
        fn $name($argument: $ty, hidden: u32) -> $ty {
            let result = $body;
            let _ = hidden;
            result
        }
    };
}

macro_rules! recorded {
    ($($item:item)*) => { $(#[telemetry_task] $item)* };
}

macro_rules! with_block {
    ($vis:vis fn $name:ident($($argument:ident : $ty:ty),*) -> $ret:ty $block:block) => {
        #[telemetry_task(name = "from a block")]
        $vis fn $name($($argument: $ty),*) -> $ret $block
    };
}

macro_rules! through_this_crate {
    ($name:ident) => {
        #[$crate::accepted::telemetry::telemetry_task(crate = $crate::accepted::telemetry)]
        fn $name() -> &'static str {
            stringify!($name)
        }
    };
}

through_this_crate!(own);

getter!(double, n: i32 => n * 2);

recorded! {
    fn triple(n: i32) -> i32 {
        n * 3
    }

    pub async fn later(n: i32) -> i32 {
        n
    }
}

with_block!(
    pub(crate) fn quadruple(n: i32) -> i32 {
        n * 4
    }
);

#[tokio::test]
async fn runs() {
    assert_eq!(double(2, 0), 4);
    assert_eq!(triple(2), 6);
    assert_eq!(later(2).await, 2);
    assert_eq!(own(), "own");
    assert_eq!(quadruple(2), 8);
}
