//! What gfx1201 is.
#![no_std]
