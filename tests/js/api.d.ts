// Written by `make sample` from the API's OpenAPI document.

export type AnnouncementRequest = { language?: string | null; texts: Record<string, string> };

export type AnswerFields = { type?: string | null; selectedOptionIds?: Array<number> | null; textAnswer?: string | null };

export type AnswerQuestionRequest = { language?: string | null; text: string };

export type ApplicationQuery = { language?: string | null; token?: string | null };

export type ApplicationReply = { success: true; message?: string; username: string; email: string | null; status: "pending" | "approved" | "rejected" | "banned"; receivedAt: number; place: number | null; waiting: number; usualSeconds: number | null; reason: string | null; reviewedAt: number | null; reapplyAt: number | null; banExpiresAt: number | null; hasPassword: boolean; canCorrectEmail: boolean; waitingFor: "review" | "applicant" | null; answerBy: number | null; questions: Array<AskedFields>; answers: Array<GivenAnswerFields> | null; canEditAnswers: boolean; hasEnded?: boolean; gameAddress: string | null };

export type ApproveRequest = { language?: string | null; username?: string | null; uuid?: string | null; userId?: string | null; usernames?: Array<string> | null; reason?: string | null; silent?: boolean; passwordChoice?: "keep" | "link" | "take" | null; until?: number | null; for?: string };

export type AskRequest = { language?: string | null; username: string; question: string };

export type AskedFields = { question: string; askedAt: number; answer: string | null; answeredAt: number | null };

export type AskedUserFields = { question: string; askedAt: number; answer: string | null; answeredAt: number | null; author: string; isSameUser: boolean };

export type AuditFields = { id: number; action: string; operator: string; target: string | null; detail: Record<string, unknown> | null; ip: string | null; timestamp: number };

export type AuditsQuery = { language?: string | null; page?: number; size?: number; action?: "decisions" | "user.registered" | "user.approved" | "user.rejected" | "user.banned" | "user.unbanned" | "user.reopened" | "user.deleted" | "user.undone" | "user.adopted" | "user.password_changed" | "user.password_link_created" | "user.email_changed" | "user.answers_changed" | "user.totp_enabled" | "user.totp_disabled" | "user.recovery_codes_replaced" | "user.recovery_code_used" | "user.session_ended" | "user.role_changed" | "user.rights_ended" | "membership.set" | "membership.ended" | "membership.renewed" | "membership.asked" | "membership.declined" | "user.note_added" | "user.asked" | "user.question_answered" | "user.answer_judged" | "settings.changed" | "token.created" | "token.revoked" | "invitation.created" | "invitation.revoked" | "user.logged_in" | "user.login_failed" | "user.totp_failed" | "user.logged_out" | "admin.logged_in" | "admin.denied" | "chat.linked" | "chat.unlinked" | "team_chat.linked" | "team_chat.unlinked" | "sync.run" | "sync.conflict" | "sync.player_removed" | "sync.player_returned" | "sync.player_locked" | "sync.edit_refused" | "sync.braked" | "allowlist.run" | "allowlist.taken_off" | "mail.resent" | "user.imported" | "data.exported" | "data.purged" | "undo.run" | null; operator?: string | null; target?: string | null; from?: number | null; to?: number | null };

export type AuditsReply = { success: true; message?: string; audits: Array<AuditFields>; pagination: Pagination };

export type AuthMeWithRulesFields = { enabled: boolean; requirePassword: boolean; passwordRegex: string };

export type BanRequest = { language?: string | null; username?: string | null; uuid?: string | null; userId?: string | null; usernames?: Array<string> | null; reason?: string | null; silent?: boolean; expiresAt?: number | null };

export type BedrockConfigFields = { enabled: boolean; prefix: string; usernameRegex: string };

export type BedrockServerFields = { host: string; port: number; link: string; qrCode: string };

export type BeginChatLinkQuery = { language?: string | null; username?: string | null };

export type BeginChatLinkReply = { success: true; message?: string; authUrl: string; linkToken: string };

export type BeginSecondFactorReply = { success: true; message?: string; secret: string; uri: string; image: string };

export type BeginSecondFactorRequest = { language?: string | null; currentPassword: string };

export type BulkDecisionReply = { success: true; message?: string; kind: "many"; results: Array<BulkDecisionResult> };

export type BulkDecisionResult = { success: boolean; message: string; username: string; status?: "pending" | "approved" | "rejected" | "banned" | "deleted"; warnings?: Array<string>; code?: string; field?: string; permission?: string };

export type BulkResendReply = { success: true; message?: string; results: Array<BulkResendResult> };

export type BulkResendResult = { success: boolean; message: string; id: number; state?: "waiting" | "sent" | "failed" | "dropped"; code?: string };

export type CaptchaConfigFields = { enabled: boolean; emailEnabled: boolean; type: "math" | "text" | "work"; withoutPicture: boolean; requiredFor: Array<string> };

export type CaptchaReply = { success: true; message?: string; token: string; image: string; expiresAt: number; expiresInSeconds: number };

export type CaptchaWorkReply = { success: true; message?: string; token: string; salt: string; hash: string; maxNumber: number; expiresAt: number; expiresInSeconds: number };

export type ChangeAnswersRequest = { language?: string | null; answers: Record<string, AnswerFields> };

export type ChangePasswordReply = { success: true; message?: string; warnings: Array<string> };

export type ChangePasswordRequest = { language?: string | null; currentPassword: string; newPassword: string };

export type ChatAccountFields = { id: string; username: string; discriminator: string; avatar: string | null; globalName: string | null };

export type ChatCallbackQuery = { language?: string | null; state?: string | null; code?: string | null; error?: string | null };

export type ChatCallbackReply = { success: true; message?: string; linked: boolean; claimed: boolean; user: ChatAccountFields };

export type ChatClaimFields = { linked: boolean; user?: ChatAccountFields; code?: string; message?: string };

export type ChatCodeReply = { success: true; message?: string; code: string; validSeconds: number };

export type ChatCodeRequest = { language?: string | null; currentPassword?: string | null; totp?: string | null };

export type ChatConfigFields = { enabled: boolean; required: boolean; platform: string | null };

export type ChatStatusReply = { success: true; message?: string; linked: boolean; user?: ChatAccountFields };

export type ChatUnlinkRequest = { language?: string | null; username: string; platform: string };

export type CheckCodeReply = { success: true; message?: string; proof: string; expiresInSeconds: number };

export type CheckCodeRequest = { language?: string | null; email: string; code: string; purpose?: "change_email" | "register" | "unlink" };

export type CheckLinkRequest = { language?: string | null; token: string };

export type CheckRegistrationReply = { success: true; message?: string; username: string };

export type CheckRegistrationRequest = { language?: string | null; username: string; email?: string | null; proof?: string | null; applicationToken?: string | null; password?: string | null; platform?: "bedrock" | "java" };

export type CheckupReply = { success: true; message?: string; language: string; verdict: "broken" | "fine" | "risky"; findings: Array<FindingFields>; notExamined: Array<string>; checkedAt: number };

export type ClientFields = { client: string; lastLoginAt: number };

export type CommandFields = { event: "approved" | "rejected" | "banned" | "unbanned" | "deleted" | "reopened" | "ended" | "renewed"; command: string; server: string; state: "waiting" | "sent" | "failed" | "dropped"; createdAt: number; doneAt: number | null; reply: string | null; lastError: string | null };

export type ConfigWithAliasesFields = { theme: string; logoUrl: string; bannerUrl: string; favicon: string; accent: string; description: string; links: Record<string, string>; announcement: string; contact: string; webServerPrefix: string; gameAddress: string | null; language: string; languages: Array<string>; authMethods: Array<string>; usernameRegex: string; registration: RegistrationConfigFields; authme: AuthMeWithRulesFields; gates: Array<"allowlist" | "authme">; enableEmailAliasLimit: boolean; emailDomainWhitelist?: Array<string>; captcha: CaptchaConfigFields; questionnaire: QuestionnaireConfigFields; chat: ChatConfigFields; bedrock: BedrockConfigFields; memberFor?: string; enableEmailDomainWhitelist: boolean; discord: ChatConfigFields; wsPort: number | null };

export type ConfigWithAliasesReply = { success: true; message?: string; config: ConfigWithAliasesFields };

export type ConfirmSecondFactorReply = { success: true; message?: string; recoveryCodes: Array<string>; inGame: boolean };

export type ConfirmSecondFactorRequest = { language?: string | null; currentPassword: string; totp: string };

export type CorrectAddressReply = { success: true; message?: string; email: string; applicationToken: string };

export type CorrectAddressRequest = { language?: string | null; captchaToken?: string | null; captchaAnswer?: string | null; email: string };

export type CreateTokenReply = { success: true; message?: string; token: string; record: TokenFields };

export type CreateTokenRequest = { language?: string | null; name: string; permissions: Array<"users.read" | "users.review" | "users.ban" | "users.manage" | "audit.read" | "sync.run" | "system.read">; days?: number | null; currentPassword?: string | null; totp?: string | null };

export type CreateUserReply = { success: true; message?: string; username: string; status: "pending" | "approved" | "rejected" | "banned"; link: string | null; expiresAt: number | null };

export type CreateUserRequest = { language?: string | null; username: string; email?: string | null; password?: string | null };

export type DecidedFields = { day: string; approved: number; rejected: number };

export type DecisionReply = { success: true; message?: string; kind: "one"; username: string; status: "pending" | "approved" | "rejected" | "banned" | "deleted"; warnings?: Array<string> };

export type DeleteByAnyPasswordRequest = { language?: string | null; currentPassword?: string | null; totp?: string | null; password?: string | null };

export type DeleteUserReply = { success: true; message?: string; username: string; warnings: Array<string> };

export type DoctorQuery = { language?: string | null; fresh?: boolean };

export type DownloadFields = { id: string; name: string; description: string; version: string; size: string; url: string; icon: string };

export type DownloadsReply = { success: true; message?: string; resources: Array<DownloadFields> };

export type EndMadeRequest = { language?: string | null; currentPassword: string };

export type EndSessionRequest = { language?: string | null; session: string };

export type EndUserSessionRequest = { language?: string | null; username: string; session: string };

export type ExportUserReply = { success: true; message?: string; exportedAt: number; user: ExportedUser; reviews: Array<ExportedReview>; notes: Array<ExportedNote>; questions: Array<AskedFields>; sessions: Array<SessionFields>; clients: Array<ClientFields>; gameAddresses: Array<GameAddressFields>; mails: Array<ExportedMail>; audits: Array<ExportedAudit>; chat: ExportedChat | null; questionnaire: ExportedQuestionnaire | null; player: PlayerFields | null; listed: ListedFields | null; truncated: Array<string> };

export type ExportedAnswer = { question: string; answers: Array<string> };

export type ExportedAudit = { action: string; by: "you" | "operator" | "system" | "nobody"; timestamp: number; ip: string | null; occurrences: number; detail: Record<string, unknown> | null };

export type ExportedChat = { platform: string; id: string; username: string; discriminator: string; avatar: string | null; globalName: string | null };

export type ExportedMail = { template: string; to: string; language: string; createdAt: number; state: "waiting" | "sent" | "failed" | "dropped"; doneAt: number | null };

export type ExportedNote = { text: string; createdAt: number };

export type ExportedQuestionnaire = { score: number; maxScore: number; passScore: number; isPassed: boolean; submittedAt: number; answers: Array<ExportedAnswer> };

export type ExportedReview = { transition: "approve" | "reject" | "ban" | "unban" | "reopen" | "delete"; statusBefore: "pending" | "approved" | "rejected" | "banned"; statusAfter: "pending" | "approved" | "rejected" | "banned" | null; reason: string | null; banExpiresAt: number | null; reviewedAt: number; answers: Array<ExportedAnswer> | null };

export type ExportedUser = { username: string; email: string | null; isEmailVerified: boolean; status: "pending" | "approved" | "rejected" | "banned"; language: string | null; platform: "java" | "bedrock"; origin: "registered" | "adopted" | "created"; registeredAt: number; registrationIp: string | null; invitedBy: string | null; reason: string | null; reviewedAt: number | null; passwordSetAt: number | null; lastLoginAt: number | null; totpEnabledAt: number | null; memberUntil: number | null; endedBecause: "date" | "idle" | "role" | null; endedAt: number | null; stayAskedAt: number | null };

export type FindingFields = { id: string; severity: "broken" | "risky"; title: string; why: string; do: string; where: string };

export type ForgotPasswordRequest = { language?: string | null; captchaToken?: string | null; captchaAnswer?: string | null; email: string };

export type GameAddressFields = { source: "ip" | "regip"; address: string; seenAt: number };

export type GameServerFields = { online: boolean; players: OnlinePlayersFields; version: string | null; motd: string | null; latencyMs: number | null; checkedAt: number | null; statusHidden: boolean; servers?: Array<NetworkServerFields> };

export type GivenAnswerFields = { questionId: number; question: string; answer: string; selectedOptionIds: Array<number> };

export type HistoryFields = { username: string; transition: "approve" | "reject" | "ban" | "unban" | "reopen" | "delete"; statusBefore: "pending" | "approved" | "rejected" | "banned"; statusAfter: "pending" | "approved" | "rejected" | "banned" | null; reason: string | null; banExpiresAt: number | null; operator: string; reviewedAt: number; isSameUser: boolean; isSameName: boolean; isSameEmail: boolean };

export type InvalidTokenReply = { success: false; message: string; valid: false; code: string };

export type InvitationFields = { id: number; grants: Array<"no_questionnaire" | "no_review">; uses: number; used: number; madeBy: string; createdAt: number; expiresAt: number; revokedAt: number | null; memberFor: string | null };

export type InvitationIdRequest = { language?: string | null; id: number };

export type InvitationQuery = { language?: string | null; invitation: string };

export type InvitationReply = { success: true; message?: string; madeBy: string; grants: Array<"no_questionnaire" | "no_review">; remainingUses: number; expiresAt: number; memberFor: string | null };

export type InvitationsReply = { success: true; message?: string; invitations: Array<InvitationFields> };

export type InviteReply = { success: true; message?: string; link: string; record: InvitationFields };

export type InviteRequest = { language?: string | null; uses?: number; days?: number; grants?: Array<"no_questionnaire" | "no_review">; memberFor?: string | null };

export type JoinHelpFields = { address: string | null; versions: string | null; bedrock: BedrockServerFields | null };

export type JoinHelpReply = { success: true; message?: string; data: JoinHelpFields };

export type LinkedChatFields = { id: string; username: string | null };

export type ListedFields = { uuid: string | null; reason: string | null; since: number };

export type LoginReply = { success: true; message?: string; token: string; expiresAt: number; username: string; email: string | null; status: "pending" | "approved" | "rejected" | "banned"; isAdmin: boolean; permissions: Array<"users.read" | "users.review" | "users.ban" | "users.manage" | "audit.read" | "sync.run" | "system.read" | "settings.write" | "team.manage">; chat?: ChatClaimFields };

export type LoginRequest = { language?: string | null; captchaToken?: string | null; captchaAnswer?: string | null; username: string; password: string; totp?: string | null; linkToken?: string | null };

export type MadeReply = { success: true; message?: string; sessions: Array<string>; tokens: Array<string>; links: Array<string>; invitations: Array<string>; chatAccounts: Array<string> };

export type MailFields = { id: number; template: string; to: string; username: string | null; language: string; state: "waiting" | "sent" | "failed" | "dropped"; attempts: number; createdAt: number; nextAttemptAt: number | null; doneAt: number | null; lastError: string | null };

export type MailsQuery = { language?: string | null; page?: number; size?: number; to?: string | null; state?: "dropped" | "failed" | "sent" | "waiting" | null };

export type MailsReply = { success: true; message?: string; mails: Array<MailFields>; pagination: Pagination };

export type MemberFields = { username: string; role: "reviewer" | "moderator" | "operator"; level: number; isActive: boolean };

export type MembershipFields = { state: "current" | "ending" | "ended"; because: "date" | "idle" | "role" | null; endsAt: number | null; endedAt: number | null; stayAskedAt: number | null };

export type MembershipLookReply = { success: true; message?: string; membership?: OwnMembershipFields };

export type MembershipRequest = { language?: string | null; username?: string | null; uuid?: string | null; userId?: string | null; usernames?: Array<string> | null; reason?: string | null; silent?: boolean; until?: number | null; for?: string; decline?: boolean };

export type MessageReply = { success: true; message: string };

export type NameQuery = { language?: string | null; username: string };

export type NameStatusFields = { username?: string; status?: "pending" | "approved" | "rejected" | "banned"; reason?: string | null; email?: string | null; canBeMailed?: boolean; reviewedAt?: number | null; banExpiresAt?: number | null; reapplyAt?: number; applicationToken?: string; answerBy?: number; hasEnded?: boolean; membership?: OwnMembershipFields; registered: boolean };

export type NeighbourFields = { username: string; status: "pending" | "approved" | "rejected" | "banned" };

export type NetworkServerFields = { name: string; online: boolean; players: OnlinePlayersFields; version: string | null; checkedAt: number | null; statusHidden: boolean };

export type NoteFields = { text: string; author: string; createdAt: number; isSameUser: boolean };

export type NoteRequest = { language?: string | null; username: string; text: string };

export type OnlinePlayersFields = { online: number | null; max: number | null; list?: Array<string> };

export type OptionFields = { id: number; text: string };

export type OverviewReply = { success: true; message?: string; waiting: number | null; asked: number | null; endingThisWeek: number | null; stayAsked: number | null; oldest: string | null; oldestSince: number | null; usualSeconds: number | null; decided: Array<DecidedFields> | null };

export type OwnMembershipFields = { state: "current" | "ending" | "ended"; because: "date" | "idle" | "role" | null; endsAt: number | null; endedAt: number | null; stayAskedAt: number | null; mayAsk: boolean };

export type OwnWhyReply = { success: true; message?: string; canJoin: boolean; why: string };

export type Pagination = { currentPage: number | null; pageSize: number; totalCount: number | null; totalPages: number | null; hasNext: boolean; hasPrev: boolean };

export type PasswordLinkReply = { success: true; message?: string; username: string; status: "pending" | "approved" | "rejected" | "banned"; link: string; expiresAt: number };

export type PasswordLinkRequest = { language?: string | null; username: string; currentPassword?: string | null; totp?: string | null };

export type PlayerFields = { presence: "unasked" | "absent" | "present" | "gone"; plugin: string; since: number; realname: string | null; email: string | null; registeredAt: number | null; wish: string | null; lockReason: string | null; lockedAt: number | null; premiumUuid: string | null; conflicts: Array<string> };

export type PluginVersionFields = { name: string; currentVersion: string | null; latestVersion: string | null; updateAvailable: boolean };

export type PointsRequest = { language?: string | null; username: string; questionId: number; points: number };

export type QuestionFields = { id: number; question: string; language: string | null; type: "single_choice" | "multiple_choice" | "text"; required: boolean; input: QuestionInputFields; options: Array<OptionFields> };

export type QuestionInputFields = { minSelections?: number; maxSelections?: number; minLength?: number; maxLength?: number; multiline?: boolean; placeholder?: string };

export type QuestionnaireConfigFields = { enabled: boolean; passScore: number; hasTextQuestions: boolean };

export type QuestionnaireConfigReply = { success: true; message?: string; data: QuestionnaireFields };

export type QuestionnaireFields = { enabled: boolean; passScore: number; questions: Array<QuestionFields> };

export type QuestionnaireProof = { token: string };

export type QuestionnaireQuery = { language?: string | null };

export type QuestionnaireResultFields = { score: number; maxScore: number; passScore: number; isPassed: boolean; requiresReview: boolean; summary: string; submittedAt: number; answers: Array<ScoredAnswerFields> };

export type ReadersReply = { success: true; message?: string; readers: Array<string> };

export type ReadingRequest = { language?: string | null; username?: string };

export type RecoveryCodesReply = { success: true; message?: string; recoveryCodes: Array<string> };

export type Refusal = { success: false; code: "actor_unknown" | "answer_too_late" | "answer_too_long" | "answers_changed" | "application_not_found" | "bad_credentials" | "banned" | "body_too_large" | "busy" | "cannot_ask_to_stay" | "captcha_required" | "chat_account_taken" | "chat_code_invalid" | "chat_denied" | "chat_link_required" | "chat_message_unknown" | "chat_not_linked" | "chat_not_member" | "chat_person_unknown" | "code_required" | "current_password_needed" | "database_away" | "domain_not_allowed" | "email_taken" | "forbidden" | "headers_too_large" | "internal" | "invalid_answer" | "invalid_captcha" | "invalid_code" | "invalid_email" | "invalid_field" | "invalid_invitation" | "invalid_link_token" | "invalid_membership" | "invalid_password" | "invalid_state" | "invalid_token" | "invalid_totp" | "invalid_username" | "invitation_expired" | "invitation_revoked" | "invitation_used_up" | "login_too_old" | "mail_not_found" | "mail_not_resendable" | "mail_unavailable" | "malformed_body" | "malformed_request" | "membership_never_ends" | "method_not_allowed" | "no_such_invitation" | "no_such_token" | "not_asked_to_stay" | "not_enabled" | "not_operator" | "nothing_asked" | "overloaded" | "password_choice_needed" | "password_required" | "player_replaced" | "players_away" | "proof_required" | "protected_operator" | "provider_away" | "questionnaire_failed" | "questionnaire_required" | "rate_limited" | "reapply_later" | "registration_closed" | "reserved_username" | "role_needs_approval" | "session_not_found" | "since_in_future" | "sync_running" | "token_name_taken" | "too_many_notes" | "too_many_questions" | "too_many_streams" | "totp_already_on" | "totp_not_on" | "totp_required" | "totp_setup_required" | "unauthorized" | "undo_of_oneself" | "unknown_path" | "unsupported_media_type" | "until_before_since" | "user_not_found" | "username_taken" | "wrong_password" | "wrong_status"; message: string; field?: string; fault?: string; remainingSeconds?: number; captchaHelps?: boolean };

export type RegisterReply = { success: true; message?: string; username: string; email: string | null; status: "pending" | "approved" | "rejected" | "banned"; applicationToken: string };

export type RegisterRequest = { language?: string | null; captchaToken?: string | null; captchaAnswer?: string | null; username: string; email?: string | null; code?: string | null; proof?: string | null; password?: string | null; platform?: "bedrock" | "java"; questionnaire?: QuestionnaireProof | null; applicationToken?: string | null; linkToken?: string | null; invitation?: string | null };

export type RegistrationConfigFields = { open: boolean; opensAt: number | null; approval: boolean; email: "optional" | "verified"; codeDigits: number; password: "off" | "optional" | "required"; passwordReset: "mail" | "operator"; passwordRegex: string; passwordMinLength: number; passwordMaxLength: number };

export type RegistrationSettingRequest = { language?: string | null; open: boolean; opensAt?: number | null };

export type RejectRequest = { language?: string | null; username?: string | null; uuid?: string | null; userId?: string | null; usernames?: Array<string> | null; reason?: string | null; silent?: boolean; mayReapply?: boolean };

export type RejectionFields = { count: number; lastAt: number | null; lastReason: string | null };

export type ReopenRequest = { language?: string | null; username?: string | null; uuid?: string | null; userId?: string | null; usernames?: Array<string> | null; reason?: string | null; silent?: boolean };

export type Reply = { success: true; message?: string };

export type ResendReply = { success: true; message?: string; id: number; state: "waiting" | "sent" | "failed" | "dropped" };

export type ResendRequest = { language?: string | null; id?: number | null; ids?: Array<number> | null };

export type ResetPasswordReply = { success: true; message?: string; username: string; status: "pending" | "approved" | "rejected" | "banned"; hasEnded?: boolean; warnings: Array<string> };

export type ResetPasswordRequest = { language?: string | null; token: string; newPassword: string };

export type ReviewRequest = { language?: string | null; username?: string | null; uuid?: string | null; userId?: string | null; usernames?: Array<string> | null; reason?: string | null; silent?: boolean };

export type ReviewStatusReply = { success: true; message?: string; username: string; status: "pending" | "approved" | "rejected" | "banned"; reason?: string | null; email?: string | null; canBeMailed?: boolean; reviewedAt?: number | null; banExpiresAt?: number | null; reapplyAt?: number; applicationToken?: string; answerBy?: number; hasEnded?: boolean; membership?: OwnMembershipFields };

export type RoleReply = { success: true; message?: string; username: string; role: string | null };

export type RoleRequest = { language?: string | null; username: string; role: "moderator" | "none" | "reviewer" };

export type ScoredAnswerFields = { questionId: number; type: "single_choice" | "multiple_choice" | "text"; question: string; answers: Array<string>; points: number | null; maxPoints: number; note: string };

export type SecondFactorReply = { success: true; message?: string; enabled: boolean; inGame: boolean; required: boolean; recoveryCodesLeft: number };

export type SecondFactorRequest = { language?: string | null; currentPassword: string; totp?: string | null };

export type SendCodeReply = { success: true; message?: string; remainingSeconds: number; expiresInSeconds: number };

export type SendCodeRequest = { language?: string | null; captchaToken?: string | null; captchaAnswer?: string | null; email: string; purpose?: "change_email" | "register" | "unlink" };

export type ServerReply = { success: true; message?: string; isOpen: boolean; mayOpen: boolean; opensAt: number | null; isPaused: boolean; registrationChanged: SettingChangeFields | null; announcements: Record<string, string>; configuredAnnouncement: string; announcementChanged: SettingChangeFields | null; languages: Array<string> };

export type ServerStatusReply = { success: true; message?: string; data: GameServerFields };

export type SessionFields = { id: string; audience: "user" | "admin"; ip: string | null; startedAt: number; lastSeenAt: number; expiresAt: number; isCurrent: boolean; browser: string | null; system: string | null };

export type SessionsReply = { success: true; message?: string; sessions: Array<SessionFields> };

export type SetPasswordRequest = { language?: string | null; username?: string | null; uuid?: string | null; userId?: string | null; usernames?: Array<string> | null; reason?: string | null; silent?: boolean; password?: string | null };

export type SettingChangeFields = { by: string; at: number };

export type SignalFields = { kind: "same_address" | "same_network" | "same_email" | "earlier_ban" | "earlier_rejection" | "look_alike" | "game_first" | "no_email" | "unproven_email" | "fast_answers" | "minecraft_account" | "no_minecraft_account"; count: number; users: Array<NeighbourFields>; sources: Array<"registration" | "login" | "game_login" | "game_registration">; seconds: number | null; usualSeconds: number | null };

export type StayRequest = { language?: string | null; text?: string };

export type SubmitQuestionnaireReply = { success: true; message?: string; token: string; score: number; maxScore: number; passScore: number; passed: boolean; manualReviewRequired: boolean; submittedAt: number; expiresAt: number; remainingSeconds?: number };

export type SubmitQuestionnaireRequest = { language?: string | null; answers: Record<string, AnswerFields>; proof?: string | null };

export type SwitchOffSecondFactorReply = { success: true; message?: string; inGame: boolean };

export type SyncAllowlistFields = { added: number; removed: number; adopted: number; approved: number; takenOff: number; heldBack: number; limit: string; unavailable: string | null; doubt: string | null; isLoaded: boolean };

export type SyncConflictFields = { username: string; field: string; kept: string; why?: string };

export type SyncErrorFields = { username: string | null; error: string };

export type SyncHeldBackFields = { removed: number; locked: number; edited: number; passwords: number; limit: string; days: number };

export type SyncReply = { success: true; message?: string; enabled: boolean; report: SyncReportFields };

export type SyncReportFields = { startedAt: number; durationMs: number; scanned: number; adopted: number; provisioned: number; updated: number; locked: number; restored: number; removed: number; conflicts: Array<SyncConflictFields>; errors: Array<SyncErrorFields>; braked: SyncHeldBackFields | null; allowlist: SyncAllowlistFields | null };

export type SyncRequest = { language?: string | null; plan?: boolean };

export type TeamAccountFields = { username: string; platform: string; accountName: string; linkedAt: number };

export type TeamChatReply = { success: true; message?: string; platforms: Array<string>; accounts: Array<TeamAccountFields> };

export type TeamReply = { success: true; message?: string; members: Array<MemberFields>; tokens: Array<TokenFields> };

export type TokenFields = { id: number; name: string; permissions: Array<"users.read" | "users.review" | "users.ban" | "users.manage" | "audit.read" | "sync.run" | "system.read" | "settings.write" | "team.manage">; madeBy: string; createdAt: number; expiresAt: number | null; lastUsedAt: number | null; revokedAt: number | null };

export type TokenNameRequest = { language?: string | null; name: string };

export type UndoFields = { username: string; statusBefore: "pending" | "approved" | "rejected" | "banned" | null; status: "pending" | "approved" | "rejected" | "banned" | null; roleBefore: string | null; role: string | null; untilBefore: number | null; until: number | null; link: "mailed" | "needed" | null; kept: "deleted" | "protected" | "registered_anew" | "touched" | null; keptBy: string | null };

export type UndoReply = { success: true; message?: string; undone: number; kept: number; users: Array<UndoFields>; ended: Record<string, number>; stays: Record<string, number>; invitedCount: number; invited: Array<string>; warnings?: Array<string> };

export type UndoRequest = { language?: string | null; of: string; since: number; until?: number | null; plan?: boolean };

export type UnlinkChatRequest = { language?: string | null; username: string; password?: string | null; totp?: string | null; code?: string | null; proof?: string | null; linkToken?: string | null };

export type UpdateUserReply = { success: true; message?: string; email: string; warnings: Array<string> };

export type UpdateUserRequest = { language?: string | null; email: string; code?: string | null; proof?: string | null; currentPassword: string };

export type UserDetailsFields = { username: string; email: string | null; status: "pending" | "approved" | "rejected" | "banned"; regTime: number; language: string | null; platform: "java" | "bedrock"; reason: string | null; reviewedBy: string | null; reviewedAt: number | null; banExpiresAt: number | null; chat: LinkedChatFields | null; discordId: string | null; questionnaireScore: number | null; questionnairePassed: boolean | null; questionnaireReviewSummary: string | null; questionnaireRequiresReview: boolean | null; questionnaireUnread: number | null; rejections: RejectionFields | null; waitingFor: "review" | "applicant" | null; membership: MembershipFields | null; answeredAt: number | null; signals: Array<SignalFields>; plugin: "synced" | "absent" | "locked" | "conflict" | "returned" | "pending" | "off"; pluginSince: number | null; allowlist: "listed" | "waiting" | "removed" | "conflict" | "absent" | "off"; decisions: Array<"approve" | "reject" | "ban" | "unban" | "reopen" | "delete">; lastLogin: number | null; isOperator: boolean; role: "reviewer" | "moderator" | null; isEmailVerified: boolean; origin: "registered" | "adopted" | "created"; registrationIp: string | null; invitedBy: string | null; passwordSetAt: number | null; bannedFrom: "pending" | "approved" | "rejected" | "banned" | null; questionnaire: QuestionnaireResultFields | null; earlierAnswers: Array<ScoredAnswerFields> | null; history: Array<HistoryFields>; notes: Array<NoteFields>; questions: Array<AskedUserFields>; mails: Array<MailFields>; commands: Array<CommandFields>; sessions: Array<SessionFields>; clients: Array<ClientFields>; gameAddresses: Array<GameAddressFields>; player: PlayerFields | null; gates: Array<"allowlist" | "authme">; listed: ListedFields | null };

export type UserDetailsReply = { success: true; message?: string; user: UserDetailsFields };

export type UserFields = { username: string; email: string | null; status: "pending" | "approved" | "rejected" | "banned"; regTime: number; language: string | null; platform: "java" | "bedrock"; reason: string | null; reviewedBy: string | null; reviewedAt: number | null; banExpiresAt: number | null; chat: LinkedChatFields | null; discordId: string | null; questionnaireScore: number | null; questionnairePassed: boolean | null; questionnaireReviewSummary: string | null; questionnaireRequiresReview: boolean | null; questionnaireUnread: number | null; rejections: RejectionFields | null; waitingFor: "review" | "applicant" | null; membership: MembershipFields | null; answeredAt: number | null; signals: Array<SignalFields>; plugin: "synced" | "absent" | "locked" | "conflict" | "returned" | "pending" | "off"; pluginSince: number | null; allowlist: "listed" | "waiting" | "removed" | "conflict" | "absent" | "off"; decisions: Array<"approve" | "reject" | "ban" | "unban" | "reopen" | "delete">; lastLogin: number | null; isOperator: boolean; role: "reviewer" | "moderator" | null };

export type UserStatusReply = { success: true; message?: string; data: NameStatusFields };

export type UsersQuery = { language?: string | null; page?: number | null; size?: number | null; search?: string; match?: "part" | "whole"; status?: "all" | "approved" | "banned" | "pending" | "rejected"; plugin?: "absent" | "conflict" | "locked" | "off" | "pending" | "returned" | "synced" | null; allowlist?: "absent" | "conflict" | "listed" | "off" | "removed" | "waiting" | null; sort?: "name" | "newest" | "oldest" | "score" | null; platform?: "bedrock" | "java" | null; userLanguage?: string | null; belowPass?: boolean; hasSignal?: boolean; waitingFor?: "applicant" | "review" | null; membership?: "asked" | "ended" | "ending" | null; after?: string | null };

export type UsersReply = { success: true; message?: string; users: Array<UserFields>; nextCursor: string | null; pagination: Pagination };

export type ValidTokenReply = { success: true; message?: string; valid: true; username: string; expiresAt: number; permissions: Array<"users.read" | "users.review" | "users.ban" | "users.manage" | "audit.read" | "sync.run" | "system.read" | "settings.write" | "team.manage"> };

export type VerifyTokenRequest = { language?: string | null; token: string };

export type VersionReply = { success: true; message?: string; currentVersion: string; latestVersion: string | null; updateAvailable: boolean; releasesUrl: string | null; checkedAt: number | null; plugin: PluginVersionFields };

export type WebhookCall = { content: string; embeds: Array<Record<string, string>>; allowed_mentions: Record<string, Array<string>>; companion: WebhookFields };

export type WebhookFields = { server: string; event: "registered" | "approved" | "rejected" | "banned" | "unbanned" | "reopened" | "deleted" | "answers_changed" | "question_asked" | "question_answered" | "chat_linked" | "chat_unlinked" | "role_changed" | "membership_ended" | "membership_renewed" | "stay_asked"; delivery: string; username: string; status: "pending" | "approved" | "rejected" | "banned" | "deleted"; at: number; reason?: string; reasonCode?: string; expiresAt?: number; chatAccount?: Record<string, string>; adminUrl?: string };

export type WhyReply = { success: true; message?: string; answer: WhyStepFields | null; steps: Array<WhyStepFields> };

export type WhyStepFields = { name: string; verdict: "ok" | "problem" | "unknown"; code: string; text: string; helper: "player" | "operator" | "host" | "nobody" };

export interface GetRoutes {
  "openapi.json": { reply: Record<string, unknown>; body: {} };
  "config": { reply: ConfigWithAliasesReply; body: {} };
  "captcha/generate": { reply: CaptchaReply; body: {} };
  "captcha/work": { reply: CaptchaWorkReply; body: {} };
  "admin/invitations": { reply: InvitationsReply; body: {} };
  "review/status": { reply: ReviewStatusReply; body: {} };
  "user/status": { reply: UserStatusReply; body: {} };
  "questionnaire/config": { reply: QuestionnaireConfigReply; body: {} };
  "admin/overview": { reply: OverviewReply; body: {} };
  "application": { reply: ApplicationReply; body: {} };
  "application/why": { reply: OwnWhyReply; body: {} };
  "admin/verify": { reply: ValidTokenReply; body: {} };
  "user/totp": { reply: SecondFactorReply; body: {} };
  "user/sessions": { reply: SessionsReply; body: {} };
  "user/export": { reply: ExportUserReply; body: {} };
  "user/why": { reply: OwnWhyReply; body: {} };
  "admin/user/why": { reply: WhyReply; body: {} };
  "user/made": { reply: MadeReply; body: {} };
  "chat/auth": { reply: BeginChatLinkReply; body: {} };
  "chat/callback": { reply: ChatCallbackReply; body: {} };
  "chat/status": { reply: ChatStatusReply; body: {} };
  "version": { reply: VersionReply; body: {} };
  "server/status": { reply: ServerStatusReply; body: {} };
  "server/join": { reply: JoinHelpReply; body: {} };
  "downloads": { reply: DownloadsReply; body: {} };
  "admin/users": { reply: UsersReply; body: {} };
  "admin/user": { reply: UserDetailsReply; body: {} };
  "admin/team": { reply: TeamReply; body: {} };
  "admin/team-chat": { reply: TeamChatReply; body: {} };
  "admin/server": { reply: ServerReply; body: {} };
  "admin/mails": { reply: MailsReply; body: {} };
  "admin/doctor": { reply: CheckupReply; body: {} };
  "admin/audits": { reply: AuditsReply; body: {} };
  "captcha": { reply: CaptchaReply; body: {} };
  "discord/auth": { reply: BeginChatLinkReply; body: {} };
  "discord/callback": { reply: ChatCallbackReply; body: {} };
  "discord/status": { reply: ChatStatusReply; body: {} };
}

export interface PostRoutes {
  "verify/send": { reply: SendCodeReply; body: SendCodeRequest };
  "verify/check": { reply: CheckCodeReply; body: CheckCodeRequest };
  "user/update": { reply: UpdateUserReply; body: UpdateUserRequest };
  "register/check": { reply: CheckRegistrationReply; body: CheckRegistrationRequest };
  "register": { reply: RegisterReply; body: RegisterRequest };
  "admin/user/create": { reply: CreateUserReply; body: CreateUserRequest };
  "invitation/check": { reply: InvitationReply; body: InvitationQuery };
  "admin/invitation": { reply: InviteReply; body: InviteRequest };
  "admin/invitation/revoke": { reply: MessageReply; body: InvitationIdRequest };
  "questionnaire/submit": { reply: SubmitQuestionnaireReply; body: SubmitQuestionnaireRequest };
  "admin/user/points": { reply: MessageReply; body: PointsRequest };
  "application/answers": { reply: ApplicationReply; body: ChangeAnswersRequest };
  "application/answer": { reply: ApplicationReply; body: AnswerQuestionRequest };
  "application/email": { reply: CorrectAddressReply; body: CorrectAddressRequest };
  "login": { reply: LoginReply; body: LoginRequest };
  "admin/login": { reply: LoginReply; body: LoginRequest };
  "logout": { reply: MessageReply; body: {} };
  "admin/verify": { reply: ValidTokenReply | InvalidTokenReply; body: VerifyTokenRequest };
  "user/password": { reply: ChangePasswordReply; body: ChangePasswordRequest };
  "password/forgot": { reply: MessageReply; body: ForgotPasswordRequest };
  "password/link": { reply: Reply; body: CheckLinkRequest };
  "password/reset": { reply: ResetPasswordReply; body: ResetPasswordRequest };
  "admin/user/password": { reply: DecisionReply | BulkDecisionReply; body: SetPasswordRequest };
  "user/totp/begin": { reply: BeginSecondFactorReply; body: BeginSecondFactorRequest };
  "user/totp/confirm": { reply: ConfirmSecondFactorReply; body: ConfirmSecondFactorRequest };
  "user/totp/recovery-codes": { reply: RecoveryCodesReply; body: SecondFactorRequest };
  "user/totp/off": { reply: SwitchOffSecondFactorReply; body: SecondFactorRequest };
  "user/delete": { reply: DeleteUserReply; body: DeleteByAnyPasswordRequest };
  "user/sessions/end": { reply: MessageReply; body: EndSessionRequest };
  "admin/user/sessions/end": { reply: MessageReply; body: EndUserSessionRequest };
  "user/made/end": { reply: MessageReply; body: EndMadeRequest };
  "admin/token/create": { reply: CreateTokenReply; body: CreateTokenRequest };
  "admin/token/revoke": { reply: MessageReply; body: TokenNameRequest };
  "admin/user/password-link": { reply: PasswordLinkReply; body: PasswordLinkRequest };
  "chat/unlink": { reply: MessageReply; body: UnlinkChatRequest };
  "admin/user/approve": { reply: DecisionReply | BulkDecisionReply; body: ApproveRequest };
  "admin/user/reject": { reply: DecisionReply | BulkDecisionReply; body: RejectRequest };
  "admin/user/ban": { reply: DecisionReply | BulkDecisionReply; body: BanRequest };
  "admin/user/unban": { reply: DecisionReply | BulkDecisionReply; body: ReviewRequest };
  "admin/user/reopen": { reply: DecisionReply | BulkDecisionReply; body: ReopenRequest };
  "admin/user/delete": { reply: DecisionReply | BulkDecisionReply; body: ReviewRequest };
  "admin/user/ask": { reply: DecisionReply; body: AskRequest };
  "admin/user/membership": { reply: DecisionReply | BulkDecisionReply; body: MembershipRequest };
  "user/membership/ask": { reply: MessageReply; body: StayRequest };
  "user/membership/look": { reply: MembershipLookReply; body: {} };
  "admin/user/note": { reply: MessageReply; body: NoteRequest };
  "admin/user/reading": { reply: ReadersReply; body: ReadingRequest };
  "admin/user/role": { reply: RoleReply; body: RoleRequest };
  "team-chat/discord": { reply: Record<string, unknown>; body: {} };
  "admin/team-chat/code": { reply: ChatCodeReply; body: ChatCodeRequest };
  "admin/team-chat/unlink": { reply: MessageReply; body: ChatUnlinkRequest };
  "admin/server/registration": { reply: MessageReply; body: RegistrationSettingRequest };
  "admin/server/announcement": { reply: MessageReply; body: AnnouncementRequest };
  "admin/mails/resend": { reply: ResendReply | BulkResendReply; body: ResendRequest };
  "admin/sync": { reply: SyncReply; body: SyncRequest };
  "admin/undo": { reply: UndoReply; body: UndoRequest };
  "discord/unlink": { reply: MessageReply; body: UnlinkChatRequest };
}
