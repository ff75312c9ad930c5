"""The questionnaire, wired."""

from regsvc.app.context import Ground
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits
from regsvc.core.i18n import Translations
from regsvc.database.engine import Worker
from regsvc.registration.questionnaire.circuit import Circuit
from regsvc.registration.questionnaire.file import load_questionnaire
from regsvc.registration.questionnaire.results import QuestionnaireResults
from regsvc.registration.questionnaire.scorer import ChatScorer, NoScorer, Scorer
from regsvc.registration.questionnaire.service import (
    AskedQuestionnaire,
    NoQuestionnaire,
    Questionnaires,
    SubmissionLimits,
)


def open_questionnaires(
    ground: Ground, worker: Worker, limits: DurableLimits, translations: Translations
) -> Questionnaires:
    """The file is read here, once. Raises `ConfigError` if it cannot be used."""
    config = ground.config.questionnaire
    secrets = DerivedSecrets(ground.keys.installation_key)
    results = QuestionnaireResults(secrets, ground.now, config.valid)
    if config.file is None:
        return NoQuestionnaire(results, config.pass_score)
    return AskedQuestionnaire(
        load_questionnaire(config.file, config.pass_score),
        results,
        database=ground.home.database,
        worker=worker,
        limits=limits,
        submission_limits=SubmissionLimits(config.limits_per_client, config.limits_total, config.retry_after),
        scorer=_make_scorer(ground),
        translations=translations,
        language=ground.config.server.language,
    )


def _make_scorer(ground: Ground) -> Scorer:
    config = ground.config.questionnaire
    if not config.scorer_url:
        return NoScorer()
    return ChatScorer(config, ground.config.server.language, Circuit("the scoring service", ground.now))
