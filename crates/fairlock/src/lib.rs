//! A family of locks for programs with more threads than CPUs.
#![cfg_attr(not(feature = "std"), no_std)]

pub mod platform;
pub mod ticket;
pub mod wait;
