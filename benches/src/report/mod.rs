//! Showing a result: a table for the terminal, a page for the browser.

mod html;
mod plot;
mod table;

pub use html::page;
pub use table::table;
