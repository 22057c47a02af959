//! Negative controls: the same checks on locks with a mistake (`fault::Fault`) must fail.

use super::guarded::Visit::*;
use super::guarded::*;
use crate::fault::Fault;

#[test]
#[ignore = "fails: a negative control"]
fn broken_looks_unordered() {
    model_with(OVERTAKEN, Some(Fault::LooksUnordered), [&[Write(LOW)], &[Write(BOTH)]]);
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_forgets_grant() {
    model_with(
        FIFO,
        Some(Fault::ForgetsGrant),
        [&[WriteCancellable(BOTH)], &[Write(LOW)], &[Cancel]],
    );
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_touches_granted() {
    model_with(FIFO, Some(Fault::TouchesGranted), [&[Write(BOTH)], &[Write(LOW)]]);
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_looks_too_early() {
    model_with(
        DEFAULT,
        Some(Fault::LooksTooEarly),
        [&[Write(HIGH), Write(BOTH)], &[Write(LOW), Write(BOTH)]],
    );
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_skips_stripes() {
    model_striped(FIFO, Some(Fault::SkipsStripes), [&[Write(FIRST)], &[Write(MORE)]]);
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_ignores_closed() {
    model_striped(FIFO, Some(Fault::IgnoresClosed), [&[Write(FIRST)], &[Write(MORE)]]);
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_leaves_a_stripe_quietly() {
    model_striped(FIFO, Some(Fault::LeavesQuietly), [&[Write(FIRST)], &[Write(MORE)]]);
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_looks_once_at_a_stripe() {
    model_striped(FIFO, Some(Fault::LooksOnceAtStripe), [&[Split(SECOND)], &[TryWrite(SECOND)]]);
}

#[test]
#[ignore = "fails: a negative control"]
fn broken_leaves_quietly() {
    model_with(FIFO, Some(Fault::LeavesQuietly), [&[Write(BOTH)], &[Write(LOW)]]);
}
