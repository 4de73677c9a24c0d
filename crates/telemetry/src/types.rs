//! The set of [`TelemetryType`]s that a capture reads.

use std::fmt;

use super::{TelemetryChoice, TelemetryType};
use runlore_core::settings::TelemetrySettings;

/// A set of types of telemetry.
///
/// ```
/// use runlore::telemetry::{TelemetryType, Types};
///
/// let types = Types::from([TelemetryType::Cpu, TelemetryType::Mem]);
/// assert!(types.contains(TelemetryType::Mem) && !types.contains(TelemetryType::Disk));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Types(u16);

impl Types {
    /// No type at all.
    pub const NONE: Self = Self(0);

    const EVERY: [TelemetryType; 8] = [
        TelemetryType::Cpu,
        TelemetryType::PerCpu,
        TelemetryType::ProcessInfo,
        TelemetryType::Mem,
        TelemetryType::Disk,
        TelemetryType::Network,
        TelemetryType::Gpu,
        TelemetryType::Energy,
    ];

    /// Returns the types that every host has: all but GPUs and energy.
    pub fn host() -> Self {
        Self::EVERY[..6].iter().copied().collect()
    }

    /// Returns the set of all types.
    ///
    /// ```
    /// use runlore::telemetry::Types;
    ///
    /// assert!(Types::host().iter().all(|one| Types::every().contains(one)));
    /// ```
    pub fn every() -> Self {
        Self::EVERY.into_iter().collect()
    }

    /// Returns the types that the settings select.
    pub fn from_settings(settings: &TelemetrySettings) -> Self {
        let asked = [
            (settings.cpu, TelemetryType::Cpu),
            (settings.per_cpu, TelemetryType::PerCpu),
            (settings.process_info, TelemetryType::ProcessInfo),
            (settings.mem, TelemetryType::Mem),
            (settings.disk, TelemetryType::Disk),
            (settings.network, TelemetryType::Network),
            (!settings.gpu.is_empty(), TelemetryType::Gpu),
            (settings.energy, TelemetryType::Energy),
        ];
        asked.into_iter().filter_map(|(is_on, one)| is_on.then_some(one)).collect()
    }

    /// Returns the types that a task with `choice` captures if `self` are the types of the
    /// settings.
    ///
    /// ```
    /// use runlore::telemetry::{TelemetryChoice, TelemetryType, Types};
    ///
    /// let settings = Types::host();
    /// assert_eq!(settings.chosen(TelemetryChoice::Default), settings);
    /// assert_eq!(settings.chosen(TelemetryChoice::Light), Types::NONE);
    /// let disk = settings.chosen(TelemetryChoice::Types(&[TelemetryType::Disk]));
    /// assert_eq!(disk, Types::from([TelemetryType::Disk]));
    /// ```
    #[must_use]
    pub fn chosen(self, choice: TelemetryChoice) -> Self {
        match choice {
            TelemetryChoice::Default => self,
            // A light task reads `usage::thread` instead of taking a capture.
            TelemetryChoice::None | TelemetryChoice::Light => Self::NONE,
            TelemetryChoice::Types(types) => types.iter().copied().collect(),
            TelemetryChoice::Set(types) => types,
        }
    }

    /// Whether this type is in the set.
    pub const fn contains(self, one: TelemetryType) -> bool {
        self.0 & (1 << one as u16) != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the types in the set.
    pub fn iter(self) -> impl Iterator<Item = TelemetryType> {
        Self::EVERY.into_iter().filter(move |one| self.contains(*one))
    }

    pub(super) const fn bits(self) -> u16 {
        self.0
    }

    pub(super) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

impl FromIterator<TelemetryType> for Types {
    fn from_iter<I: IntoIterator<Item = TelemetryType>>(types: I) -> Self {
        Self(types.into_iter().fold(0, |bits, one| bits | 1 << one as u16))
    }
}

impl<const N: usize> From<[TelemetryType; N]> for Types {
    fn from(types: [TelemetryType; N]) -> Self {
        types.into_iter().collect()
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
