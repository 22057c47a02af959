//! Which discipline a lock follows: this is asked here, and nowhere else. What both disciplines do
//! at the same occasion has the same name in both.

use super::RwSem;
use super::policy::Discipline;
use super::published::Published;
use super::tenure::InTenure;
use crate::platform::Platform;

/// The lock as its discipline sees it.
pub(super) enum View<'a, P: Platform> {
    Tenure(InTenure<'a, P>),
    Published(Published<'a, P>),
}

impl<P: Platform> RwSem<P> {
    /// The lock as its discipline sees it.
    #[inline(always)]
    pub(super) fn view(&self) -> View<'_, P> {
        match self.policy.discipline() {
            Discipline::Tenure(policy) => View::Tenure(InTenure::of(self, policy)),
            Discipline::Published(policy) => View::Published(Published::of(self, policy)),
        }
    }

    /// The view of a lock that is known to follow the published discipline.
    #[cfg(test)]
    pub(super) fn in_published(&self) -> Published<'_, P> {
        match self.view() {
            View::Published(published) => published,
            View::Tenure(_) => panic!("not under tenure"),
        }
    }

    /// The view under tenure; `None` under the published discipline.
    #[inline(always)]
    pub(super) fn in_tenure(&self) -> Option<InTenure<'_, P>> {
        match self.view() {
            View::Tenure(tenure) => Some(tenure),
            View::Published(_) => None,
        }
    }
}

/// `with_view!(lock, view => expression)`: the expression for the lock as its discipline sees it.
macro_rules! with_view {
    ($lock:expr, $view:ident => $do:expr) => {
        match $lock.view() {
            $crate::rwsem::discipline::View::Tenure($view) => $do,
            $crate::rwsem::discipline::View::Published($view) => $do,
        }
    };
}
pub(super) use with_view;
