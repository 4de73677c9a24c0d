//! Finds tensors inside other values: tuples, lists, `Option` and `Result`.

use super::tensor::{Inspect, TensorFacts, TensorStatistics};

/// A reference to a value that may contain tensors.
///
/// Each framework's crate defines a `Probe` of its own. Rust's orphan rule allows that crate to
/// implement [`Inspect`] for the framework's tensors only on a type of its own.
#[derive(Debug)]
pub struct Probe<'a, T: ?Sized>(pub &'a T);

impl<T: Inspect + ?Sized> Inspect for Probe<'_, T> {
    fn facts(&self) -> TensorFacts {
        self.0.facts()
    }

    fn statistics(&self) -> Option<TensorStatistics> {
        self.0.statistics()
    }

    fn is_asynchronous(&self) -> bool {
        self.0.is_asynchronous()
    }

    fn wait(&self) {
        self.0.wait();
    }

    fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
        self.0.wait_later()
    }
}

/// A value that consists of tensors only.
pub trait Tensors {
    /// Calls `see` with each tensor.
    fn each(&self, see: &mut dyn FnMut(&dyn Inspect));
}

/// Implements `Tensors` for a crate's own `Probe`.
///
/// The implementations cover the values that the crate implements `Inspect` for, and all lists,
/// options, results and tuples of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __tensors {
    ($probe:ident, $tensors:path, $inspect:path) => {
        impl<'a, T: ?Sized> $tensors for $probe<'a, T>
        where
            $probe<'a, T>: $inspect,
        {
            fn each(&self, see: &mut dyn FnMut(&dyn $inspect)) {
                see(self);
            }
        }

        $crate::__tensors!(@items $probe, $tensors, $inspect,
            [] Vec<T>; [] [T]; [] &[T]; [] &Vec<T>; [const N: usize] [T; N]; [] Option<T>; [E] Result<T, E>
        );
        $crate::__tensors!(@tuple $probe, $tensors, $inspect, A a, B b);
        $crate::__tensors!(@tuple $probe, $tensors, $inspect, A a, B b, C c);
        $crate::__tensors!(@tuple $probe, $tensors, $inspect, A a, B b, C c, D d);
    };
    (@items $probe:ident, $tensors:path, $inspect:path, $([$($more:tt)*] $type:ty);*) => {
        $(impl<'a, T, $($more)*> $tensors for $probe<'a, $type>
        where
            $probe<'a, T>: $tensors,
        {
            fn each(&self, see: &mut dyn FnMut(&dyn $inspect)) {
                for item in self.0.iter() {
                    <$probe<'a, T> as $tensors>::each(&$probe(item), see);
                }
            }
        })*
    };
    (@tuple $probe:ident, $tensors:path, $inspect:path, $($type:ident $part:ident),*) => {
        impl<'a, $($type),*> $tensors for $probe<'a, ($($type),*)>
        where
            $($probe<'a, $type>: $tensors,)*
        {
            fn each(&self, see: &mut dyn FnMut(&dyn $inspect)) {
                let ($($part),*) = self.0;
                $(<$probe<'a, $type> as $tensors>::each(&$probe($part), see);)*
            }
        }
    };
}

crate::__tensors!(Probe, Tensors, Inspect);

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(usize);

    impl Inspect for Row {
        fn facts(&self) -> TensorFacts {
            TensorFacts::new(&[self.0], "f32", 4)
        }
    }

    fn sizes(value: &impl Tensors) -> Vec<u64> {
        let mut sizes = Vec::new();
        value.each(&mut |tensor| sizes.push(tensor.facts().numel));
        sizes
    }

    #[test]
    fn tensors_are_found_in_what_is_put_together_of_them() {
        assert_eq!(sizes(&Probe(&Row(1))), [1]);
        assert_eq!(sizes(&Probe(&&Row(1))), [1]);
        assert_eq!(sizes(&Probe(&(Row(1), Row(2)))), [1, 2]);
        assert_eq!(sizes(&Probe(&(Row(1), Some(Row(2)), [Row(3), Row(4)]))), [1, 2, 3, 4]);
        assert_eq!(sizes(&Probe(&vec![(Row(1), Row(2)), (Row(3), Row(4))])), [1, 2, 3, 4]);
        assert_eq!(sizes(&Probe(&&[Row(1)][..])), [1]);
        assert_eq!(sizes(&Probe(&None::<Row>)), [0; 0]);
        assert_eq!(sizes(&Probe(&Ok::<_, String>(Row(1)))), [1]);
    }
}
