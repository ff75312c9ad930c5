"""Wiring of the questionnaire."""

from regsvc.app.context import AppContext
from regsvc.app.runtime import RuntimeParts
from regsvc.auth.address_proofs import AddressProofs
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits
from regsvc.core.backoff import CircuitBreaker
from regsvc.registration.questionnaire.file import load_questionnaire
from regsvc.registration.questionnaire.results import QuestionnaireResults
from regsvc.registration.questionnaire.scorer import ChatScorer, NoScorer, Scorer
from regsvc.registration.questionnaire.service import (
    ActiveQuestionnaire,
    NoQuestionnaire,
    Questionnaires,
    SubmissionLimits,
)


def wire_questionnaire(
    context: AppContext, runtime: RuntimeParts, limits: DurableLimits, proofs: AddressProofs
) -> Questionnaires:
    """Read the questionnaire's file, once per process. Raises `ConfigError` if it cannot be used."""
    config = context.config.questionnaire
    secrets = DerivedSecrets(context.keys.installation_key)
    results = QuestionnaireResults(secrets, context.now, config.valid)
    if config.file is None:
        return NoQuestionnaire(results, config.pass_score)
    return ActiveQuestionnaire(
        load_questionnaire(config.file, config.pass_score),
        results,
        database=context.location.database,
        worker=runtime.worker,
        limits=SubmissionLimits(proofs, limits, config.limits_per_client, config.limits_total, config.retry_after),
        scorer=_make_scorer(context),
        translations=runtime.translations,
        language=context.config.server.language,
    )


def _make_scorer(context: AppContext) -> Scorer:
    config = context.config.questionnaire
    if not config.scorer_url:
        return NoScorer()
    return ChatScorer(config, context.config.server.language, CircuitBreaker("the scoring service"))
