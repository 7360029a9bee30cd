//! Keeps denormalised documents in step with the rows they are made of

pub mod config;
