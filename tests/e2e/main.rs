//! A real Postgres in, documents out: a test for every case and promise that can be told end to end.
//!
//! A test ends the same way each time: once the source is quiet, what the sink holds equals what plain SQL gives.

mod away;
mod between_looks;
mod cases_a;
mod cases_b;
mod cases_c;
mod cases_c_more;
mod cases_f;
mod cases_g;
mod cases_h;
mod checking;
mod names;
mod polled;
mod polled_tables;
mod programs;
mod promises;
mod stopped;
mod values;
mod watching;
mod words;
