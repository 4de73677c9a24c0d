//! Sums without loss of precision.

use serde_json::Value;

/// Sums whole numbers exactly. Sums floats with compensation for rounding errors, so that their
/// order makes no visible difference.
#[derive(Debug, Clone, Default)]
pub(super) struct Sum {
    whole: i128,
    float: f64,
    lost: f64,
    has_float: bool,
}

impl Sum {
    /// Adds a number. Ignores any other value.
    pub(super) fn add(&mut self, value: &Value) {
        let Value::Number(number) = value else { return };
        let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        match (whole, number.as_f64()) {
            (Some(whole), _) => self.whole = self.whole.saturating_add(whole),
            (None, Some(float)) => {
                self.has_float = true;
                self.add_float(float);
            }
            (None, None) => {}
        }
    }

    fn add_float(&mut self, float: f64) {
        let sum = self.float + float;
        self.lost += if self.float.abs() >= float.abs() {
            (self.float - sum) + float
        } else {
            (float - sum) + self.float
        };
        self.float = sum;
    }

    /// Returns the sum. It is a whole number if all added numbers were and it fits 64 bits.
    pub(super) fn total(&self) -> Value {
        match (self.has_float, i64::try_from(self.whole), u64::try_from(self.whole)) {
            (false, Ok(whole), _) => whole.into(),
            (false, _, Ok(whole)) => whole.into(),
            _ => self.as_f64().into(),
        }
    }

    pub(super) fn as_f64(&self) -> f64 {
        let mut sum = self.clone();
        // Add it in two parts, because one float may not represent it exactly.
        let high = self.whole as f64;
        sum.add_float(high);
        sum.add_float((self.whole - high as i128) as f64);
        let total = sum.float + sum.lost;
        // The compensation is meaningless once the sum is infinite.
        if total.is_nan() { sum.float } else { total }
    }
}
