//! Nobody watches.

super::functions!();
