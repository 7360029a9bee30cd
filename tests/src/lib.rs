//! Whether it is true.
