import { runFolder } from "../vectors/folder.js";
import { SESSION } from "../vectors/session.js";

runFolder("session", SESSION);
