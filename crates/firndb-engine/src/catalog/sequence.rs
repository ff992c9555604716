//! Sequences: numbers that are given out once, whatever becomes of the transaction that asked.

use parking_lot::Mutex;

use crate::error::{Error, Result, SqlState};

/// A sequence in its schema.
#[derive(Debug)]
pub struct SequenceEntry {
    /// Its schema's name.
    pub schema: String,
    /// Its name as written.
    pub name: String,
    /// What it counts by.
    pub options: SequenceOptions,
    /// Whether it belongs to an identity or serial column, with whose table it goes.
    pub owned: bool,
    state: Mutex<State>,
}

/// What a sequence counts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceOptions {
    /// The first number.
    pub start: i64,
    /// What is added each time.
    pub increment: i64,
    /// The least number.
    pub least: i64,
    /// The greatest number.
    pub greatest: i64,
    /// Whether it begins anew at its end.
    pub cycle: bool,
}

#[derive(Debug, Clone, Copy)]
struct State {
    value: i64,
    /// Whether `value` was given out.
    given: bool,
}

impl SequenceEntry {
    /// A sequence that has given nothing out.
    pub fn new(schema: &str, name: &str, options: SequenceOptions, owned: bool) -> Self {
        SequenceEntry {
            schema: schema.to_owned(),
            name: name.to_owned(),
            options,
            owned,
            state: Mutex::new(State {
                value: options.start,
                given: false,
            }),
        }
    }

    /// The next number; 2200H at the end.
    pub fn next(&self) -> Result<i64> {
        let mut state = self.state.lock();
        let SequenceOptions {
            increment,
            least,
            greatest,
            cycle,
            ..
        } = self.options;
        if state.given {
            let next = state.value.checked_add(increment);
            let within = next.filter(|next| (least..=greatest).contains(next));
            state.value = match within {
                Some(next) => next,
                None if cycle => {
                    if increment > 0 {
                        least
                    } else {
                        greatest
                    }
                }
                None => {
                    let (word, limit) = match increment > 0 {
                        true => ("maximum", greatest),
                        false => ("minimum", least),
                    };
                    return Err(Error::new(
                        SqlState::SequenceGeneratorLimitExceeded,
                        format!(
                            "nextval: reached {word} value of sequence \"{}\" ({limit})",
                            self.name
                        ),
                    ));
                }
            };
        }
        state.given = true;
        Ok(state.value)
    }

    /// Goes on from a number, which counts as given out if `given`.
    pub fn set(&self, value: i64, given: bool) -> Result<()> {
        let SequenceOptions {
            least, greatest, ..
        } = self.options;
        if !(least..=greatest).contains(&value) {
            return Err(Error::new(
                SqlState::NumericValueOutOfRange,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({least}..{greatest})",
                    self.name
                ),
            ));
        }
        *self.state.lock() = State { value, given };
        Ok(())
    }

    /// Goes on beyond a number that was given elsewhere.
    pub fn pass(&self, value: i64) {
        let mut state = self.state.lock();
        if value >= state.value && value <= self.options.greatest {
            *state = State { value, given: true };
        }
    }

    /// Begins anew.
    pub fn restart(&self) {
        *self.state.lock() = State {
            value: self.options.start,
            given: false,
        };
    }

    /// The number given out last.
    pub fn last(&self) -> Option<i64> {
        let state = self.state.lock();
        state.given.then_some(state.value)
    }
}
