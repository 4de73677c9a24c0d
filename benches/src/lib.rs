//! Nothing: the measurements are in the bench target `targets`, see `docs/performance.md`.
