//! First use of the cryptographic library in a process: a cost of the generator, not part of a sample.

use rustls::crypto::aws_lc_rs::default_provider;

use crate::plan::Plan;

/// Prepares this process for key agreements, if the plan has any.
///
/// AWS-LC seeds its random number generator at its first use in a process, from the processor's timing jitter: 40 ms of
/// processor time or more, which the first handshake would otherwise include. A failure is ignored here; the handshake
/// reports it again.
pub(super) fn up(plan: &Plan) {
    let target = &plan.target;
    let is_sealed = target.sealed.is_some() || target.mle.is_some() || target.one_shot.is_some();
    if target.tls.is_some() || is_sealed || target.broker.is_some() || target.channels.is_some() {
        let provider = default_provider();
        let _ = provider.secure_random.fill(&mut [0; 32]);
        for group in provider.kx_groups {
            let _ = group.start();
        }
    }
}
