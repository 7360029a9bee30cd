//! The program from outside: what it prints and with which code it ends.

mod compose;
mod docs;
mod files;
mod orders;
mod program;
