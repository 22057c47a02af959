//# Once
static START: Once = Once::new(); let mut calls = 0; START.call_once(|| calls += 1); START.call_once(|| calls += 1); assert_eq!(calls, 1);
//# Once::new
const START: Once = Once::new(); assert_eq!(START.state(), OnceState::New);
//# Once::state
let once = Once::new(); once.call_once(|| assert_eq!(once.state(), OnceState::InProgress)); assert_eq!(once.state(), OnceState::Done);
//# Once::call_once
let once = Once::new(); poison(|| once.call_once(|| panic(()))); assert_eq!(once.state(), OnceState::Poisoned); assert!(poison(|| once.call_once(|| ())));
//# Once::call_once_force
let once = Once::new(); poison(|| once.call_once(|| panic(()))); once.call_once_force(|state| assert!(state.poisoned())); assert!(once.state().done());
//# Once: Default
assert_eq!(Once::default().state(), OnceState::New);
//# Once: Debug
assert_eq!(format!("{:?}", Once::new()), "Once { state: New }");
//# Once: Send, Sync, UnwindSafe, RefUnwindSafe
fn check<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {} check::<Once>();
//# OnceState
let all = [OnceState::New, OnceState::Poisoned, OnceState::InProgress, OnceState::Done]; assert_eq!(all.map(|state| state.done()), [false, false, false, true]);
//# OnceState::poisoned
assert!(OnceState::Poisoned.poisoned() && !OnceState::Done.poisoned());
//# OnceState::done
assert!(OnceState::Done.done() && !OnceState::New.done());
//# OnceState: Copy, Debug, Eq
fn check<T: Copy + Eq + std::fmt::Debug>() {} check::<OnceState>();
