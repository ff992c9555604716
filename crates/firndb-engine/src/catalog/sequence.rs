//! Sequences: numbers that are given out once, whatever becomes of the transaction that asked.
//!
//! In a database file numbers are logged ahead: what the log holds is a number up to which they may be given out without another word. So
//! after a crash a sequence goes on beyond every number that anybody saw, and may leave some out.

use std::sync::Arc;

use firndb_storage::Storage;
use parking_lot::Mutex;

use super::TEMPORARY_SCHEMA;
use super::state::fold;
use super::store::{number_key, sequence_number};
use crate::error::{Error, Result, SqlState};

/// Numbers that are logged ahead.
const AHEAD: i64 = 32;

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
    /// What no other sequence is called, now or later.
    pub(super) id: String,
    /// Where its numbers are logged, if they last.
    storage: Option<Arc<Storage>>,
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
    /// How far the log is: numbers up to here need no more words. `None` if it knows of none that was given out.
    logged: Option<i64>,
}

impl State {
    /// Whether it is anywhere but at its beginning.
    fn is_moved(&self, options: &SequenceOptions) -> bool {
        self.given || self.value != options.start
    }
}

impl SequenceEntry {
    /// A sequence that has given nothing out.
    pub fn new(
        schema: &str,
        name: &str,
        options: SequenceOptions,
        owned: bool,
        storage: &Arc<Storage>,
    ) -> Self {
        let id = uuid::Uuid::new_v4().to_string();
        Self::restored((schema, name), id, options, owned, None, storage)
    }

    /// A sequence as a database file has it: its schema and name, and how far it is.
    pub(super) fn restored(
        (schema, name): (&str, &str),
        id: String,
        options: SequenceOptions,
        owned: bool,
        number: Option<(i64, bool)>,
        storage: &Arc<Storage>,
    ) -> Self {
        let (value, given) = number.unwrap_or((options.start, false));
        let lasts = storage.is_durable() && fold(schema) != TEMPORARY_SCHEMA;
        SequenceEntry {
            schema: schema.to_owned(),
            name: name.to_owned(),
            options,
            owned,
            id,
            storage: lasts.then(|| Arc::clone(storage)),
            state: Mutex::new(State {
                value,
                given,
                logged: given.then_some(value),
            }),
        }
    }

    /// The same sequence under a name and with options, where it stands or at a number that comes next.
    pub fn altered(
        &self,
        name: &str,
        options: SequenceOptions,
        restart: Option<i64>,
    ) -> Result<SequenceEntry> {
        let (value, given) = match restart {
            Some(value) => (value, false),
            None => {
                let state = self.state.lock();
                (state.value, state.given)
            }
        };
        if value < options.least || value > options.greatest {
            return Err(Error::new(
                SqlState::InvalidParameterValue,
                format!(
                    "RESTART value ({value}) is out of the bounds {} and {}",
                    options.least, options.greatest
                ),
            ));
        }
        // Its numbers are its own: a rollback leaves those of the one before as they are.
        Ok(SequenceEntry {
            schema: self.schema.clone(),
            name: name.to_owned(),
            options,
            owned: self.owned,
            id: uuid::Uuid::new_v4().to_string(),
            storage: self.storage.clone(),
            state: Mutex::new(State {
                value,
                given,
                logged: given.then_some(value),
            }),
        })
    }

    /// How far it is, as the database file has it; `None` as long as nothing was given out.
    pub(super) fn stored(&self, exact: bool) -> Option<Vec<u8>> {
        let state = self.state.lock();
        match (exact, state.logged) {
            (false, Some(logged)) => Some(sequence_number(logged, true)),
            _ => state
                .is_moved(&self.options)
                .then(|| sequence_number(state.value, state.given)),
        }
    }

    /// Puts a state in the place of the one before, once the log covers it.
    fn advance(&self, state: &mut State, mut new: State) -> Result<()> {
        let Some(storage) = &self.storage else {
            *state = new;
            return Ok(());
        };
        let SequenceOptions {
            increment,
            least,
            greatest,
            ..
        } = self.options;
        let is_covered = |logged: i64| match increment > 0 {
            true => (state.value..=logged).contains(&new.value),
            false => (logged..=state.value).contains(&new.value),
        };
        if new.given && state.given && state.logged.is_some_and(is_covered) {
            new.logged = state.logged;
        } else {
            let ahead = new
                .value
                .saturating_add(increment.saturating_mul(AHEAD - 1));
            let steps = (i128::from(ahead.clamp(least, greatest)) - i128::from(new.value))
                / i128::from(increment);
            let bound = match new.given {
                // A number that it gives out by itself, within its bounds.
                true => (i128::from(new.value) + steps * i128::from(increment)) as i64,
                false => new.value,
            };
            new.logged = new.given.then_some(bound);
            storage.set_object(&number_key(&self.id), &sequence_number(bound, new.given))?;
        }
        *state = new;
        Ok(())
    }

    /// The next number; 2200H at the end.
    pub fn next(&self) -> Result<i64> {
        let mut state = self.state.lock();
        let mut value = state.value;
        let SequenceOptions {
            increment,
            least,
            greatest,
            cycle,
            ..
        } = self.options;
        if state.given {
            let next = value.checked_add(increment);
            let within = next.filter(|next| (least..=greatest).contains(next));
            value = match within {
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
        let new = State {
            value,
            given: true,
            logged: None,
        };
        self.advance(&mut state, new)?;
        Ok(value)
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
        let mut state = self.state.lock();
        // Whatever was logged ahead no longer holds.
        state.logged = None;
        let new = State {
            value,
            given,
            logged: None,
        };
        self.advance(&mut state, new)
    }

    /// Goes on beyond a number that was given elsewhere.
    pub fn pass(&self, value: i64) -> Result<()> {
        let mut state = self.state.lock();
        if value < state.value || value > self.options.greatest {
            return Ok(());
        }
        let new = State {
            value,
            given: true,
            logged: None,
        };
        self.advance(&mut state, new)
    }

    /// Begins anew.
    pub fn restart(&self) -> Result<()> {
        let mut state = self.state.lock();
        let new = State {
            value: self.options.start,
            given: false,
            logged: None,
        };
        self.advance(&mut state, new)
    }

    /// The number given out last.
    pub fn last(&self) -> Option<i64> {
        let state = self.state.lock();
        state.given.then_some(state.value)
    }
}
