//! How a worker lives, and what each one does
