// The dialog that asks an applicant something: the application then waits for the answer.

import { asRefusal } from "../../shared/api.js";
import { button, make, uniqueId } from "../../shared/dom.js";
import { Field, Form } from "../../shared/form.js";
import { t } from "../../shared/i18n.js";
import { dropDraft, keepDraft } from "../browser-storage.js";
import { announceReply } from "../send-change.js";

const DRAFT = "question";
const LONGEST_QUESTION = 2000; // characters, as in the API

/**
 * Ask an applicant something; resolves to whether they were asked. After a refusal the dialog stays, with the question.
 *
 * @param {import("../view-context.js").ViewContext} context
 * @param {string} username
 * @returns {Promise<boolean>}
 */
export function askApplicant({ api }, username) {
  const title = uniqueId("title");
  let isAsked = false;
  return new Promise((resolve) => {
    const question = new Field("question", t("ask_question"), {
      type: "textarea",
      maxlength: LONGEST_QUESTION,
      hint: t("ask_hint"),
      isTrimmed: true,
    });
    const form = new Form({
      fields: [question],
      submit: t("ask_send"),
      send: async (values) => {
        const reply = await api.post("admin/user/ask", { username, question: values.question }).catch((error) => {
          if (asRefusal(error).isLoggedOut) {
            dialog.close(); // it would cover the login
          }
          throw error;
        });
        isAsked = true;
        dropDraft(DRAFT, username);
        dialog.close();
        announceReply(reply);
      },
      onRefusal: ({ message }) => {
        question.showError(message); // a notice would be behind the dialog
        question.focus();
        return true;
      },
    });
    form.element.append(
      make(
        "div",
        { class: "buttons" },
        form.submit,
        button(t("cancel"), () => cancel(), "quiet"),
      ),
    );
    keepDraft(question.input, DRAFT, username);
    const cancel = () => {
      dropDraft(DRAFT, username);
      dialog.close();
    };
    /** @type {HTMLDialogElement} */
    const dialog = make(
      "dialog",
      { class: "decision", "aria-labelledby": title },
      make("h2", { id: title }, t("ask_applicant", { name: username })),
      form.element,
    );
    dialog.addEventListener("cancel", cancel);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(isAsked);
    });
    document.body.append(dialog);
    dialog.showModal();
    question.focus();
  });
}
