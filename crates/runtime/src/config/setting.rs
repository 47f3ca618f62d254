//! Types of settings that contain their default and bounds. The same type in the source checks a value, and gives `cargo xtask
//! codegen` the reference and the JSON Schema.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Problems;

/// The path of a file or a folder, relative to the folder of the configuration.
pub type FilePath = String;

/// The integer type of a setting.
pub trait Whole: Copy + PartialOrd + fmt::Display {
    /// The largest value of the type.
    const MOST: u64;

    /// Converts a default or a bound to this type: at most [`Whole::MOST`].
    fn of(value: u64) -> Self;
}

macro_rules! whole {
    ($($number:ty),*) => {$(
        impl Whole for $number {
            const MOST: u64 = <$number>::MAX as u64;

            fn of(value: u64) -> Self {
                value as $number
            }
        }
    )*};
}
whole!(u32, u64, usize);

/// An optional number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Within<N, const MIN: u64, const MAX: u64>(Option<N>);

impl<N: Whole, const MIN: u64, const MAX: u64> Within<N, MIN, MAX> {
    /// Returns the number as written.
    pub fn given(self) -> Option<N> {
        self.0
    }

    /// Returns the number, or `None` if it is omitted. A number out of bounds is a problem at `path`.
    pub fn check(self, path: &str, problems: &mut Problems) -> Option<N> {
        self.0.map(|_| self.check_or(path, N::of(MIN), problems))
    }

    /// Returns the number, or `default` if it is omitted. A number out of bounds is a problem at `path`.
    pub fn check_or(self, path: &str, default: N, problems: &mut Problems) -> N {
        const { assert!(MIN <= MAX && MAX <= N::MOST, "bounds that the number can have") };
        problems.bounded(path, self.0, default, N::of(MIN)..=N::of(MAX))
    }
}

/// A number from `MIN` to `MAX`; `DEFAULT` if it is omitted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Number<N, const DEFAULT: u64, const MIN: u64, const MAX: u64>(Within<N, MIN, MAX>);

impl<N: Whole, const DEFAULT: u64, const MIN: u64, const MAX: u64> Number<N, DEFAULT, MIN, MAX> {
    /// Returns the number as written.
    pub fn given(self) -> Option<N> {
        self.0.given()
    }

    /// Returns this setting, or `other` if it is omitted.
    pub fn or(self, other: Option<N>) -> Self {
        Number(Within(self.given().or(other)))
    }

    /// Returns the number. A number out of bounds is a problem at `path`.
    pub fn check(self, path: &str, problems: &mut Problems) -> N {
        const { assert!(MIN <= DEFAULT && DEFAULT <= MAX, "a default within its bounds") };
        self.0.check_or(path, N::of(DEFAULT), problems)
    }

    /// Checks, as [`Number::check`], with a default that follows from another setting.
    pub fn check_or(self, path: &str, default: N, problems: &mut Problems) -> N {
        self.0.check_or(path, default, problems)
    }
}

impl<const DEFAULT: u64, const MIN: u64, const MAX: u64> Number<u64, DEFAULT, MIN, MAX> {
    /// Returns a checked number of milliseconds.
    pub fn millis(self, path: &str, problems: &mut Problems) -> Duration {
        Duration::from_millis(self.check(path, problems))
    }
}

/// True or false; `DEFAULT` if it is omitted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Flag<const DEFAULT: bool>(Option<bool>);

impl<const DEFAULT: bool> Flag<DEFAULT> {
    /// Returns the value as written.
    pub fn given(self) -> Option<bool> {
        self.0
    }

    /// Returns the value, or the default.
    pub fn get(self) -> bool {
        self.0.unwrap_or(DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layers;
    use super::*;

    #[derive(Debug, Default, Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    struct Section {
        wait_ms: Number<u64, 5, 1, 10>,
        streams_max: Within<u32, 2, 4>,
        forwarded: Flag<true>,
    }

    fn section(text: &str) -> Section {
        Layers::new().text::<Section>("test", text).unwrap().extract().unwrap()
    }

    #[test]
    fn an_omitted_setting_has_its_default() {
        for text in ["{}", "wait_ms: ~\nstreams_max:\nforwarded: ~"] {
            let (section, mut problems) = (section(text), Problems::default());
            assert_eq!(section.wait_ms.millis("wait_ms", &mut problems), Duration::from_millis(5));
            assert_eq!(section.wait_ms.check_or("wait_ms", 7, &mut problems), 7);
            assert_eq!(section.streams_max.check("streams_max", &mut problems), None);
            assert_eq!((section.forwarded.get(), section.forwarded.given()), (true, None));
            problems.into_result().unwrap();
        }
    }

    #[test]
    fn a_number_out_of_bounds_is_named_with_them() {
        let (section, mut problems) = (section("wait_ms: 11\nstreams_max: 1\nforwarded: false"), Problems::default());
        section.wait_ms.check("a.wait_ms", &mut problems);
        section.streams_max.check("a.streams_max", &mut problems);
        let err = problems.into_result().unwrap_err().0;
        assert_eq!(err, "a.wait_ms: 11 is not from 1 to 10\na.streams_max: 1 is not from 2 to 4");
        assert!(!section.forwarded.get());
    }

    #[test]
    fn a_value_of_another_type_is_told_as_of_a_plain_number() {
        let err = super::super::load_yaml::<Section>("wait_ms: soon").unwrap_err().0;
        assert!(err.starts_with("wait_ms: \"soon\": expected a whole number of milliseconds, such as 5000"), "{err}");
    }
}
