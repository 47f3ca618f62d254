//! The cryptographic library's first use in a process, which is the generator's own cost and no part of a sample.

use rustls::crypto::aws_lc_rs::default_provider;

use crate::plan::Plan;

/// Makes this process ready for key agreements, where the plan has any.
///
/// AWS-LC seeds its random number generator at its first use in a process, from the jitter of the processor's own timing:
/// 40 ms of processor time or more, which would otherwise be in the first handshake. A failure shows there again.
pub(super) fn up(plan: &Plan) {
    let target = &plan.target;
    if target.tls.is_some() || target.sealed.is_some() || target.broker.is_some() || target.channels.is_some() {
        let provider = default_provider();
        let _ = provider.secure_random.fill(&mut [0; 32]);
        for group in provider.kx_groups {
            let _ = group.start();
        }
    }
}
